"""Files of pairs as a configuration describes them: everything that reads for it opens them here."""

from __future__ import annotations

from collections.abc import Sequence

from seqwright.config import DataConfig
from seqwright.data.readers.lines import Decoding
from seqwright.data.readers.pairs import PairFiles, Rules
from seqwright.data.readers.sniffing import Form
from seqwright.errors import ConfigError

LONGEST_TOKEN = 40
"""Code points: a text of more than data.max_length times so many is not worth cutting into tokens."""


def open_pairs(paths: Sequence[str], data: DataConfig) -> PairFiles:
    """The pairs in `paths`, read with the form, encoding and rules of `data`.

    Parallel files come sources first: a.en b.en a.de b.de.
    """
    form = Form(data.format, data.delimiter, data.header, data.columns, data.quoting)
    decoding = Decoding(data.encoding, data.on_bad_bytes)
    rules = Rules(data.skip_bad_rows, LONGEST_TOKEN * data.max_length)
    if data.format != "parallel":
        return PairFiles.from_paths(paths, form=form, decoding=decoding, rules=rules)
    half, odd = divmod(len(paths), 2)
    if odd:
        raise ConfigError(
            f"data.format is parallel, which needs as many files of targets as of sources, not {len(paths)} "
            "files; name the sources first, then the targets"
        )
    return PairFiles(paths[:half], paths[half:], form=form, decoding=decoding, rules=rules)
