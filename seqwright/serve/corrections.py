"""Corrections: what users say the output should have been, in `corrections.jsonl` of the run folder.

Each line is a JSON object with the columns of the task, so that the file is training data as it is, and with
the output of the model and the time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seqwright.data.corrections import CORRECTIONS
from seqwright.errors import WriteError
from seqwright.files import NO_FOLLOW, alone, encode_json, writing

LOCK = ".corrections.lock"


def add_correction(folder: Path, columns: Mapping[str, Any], output: str | None, most: int) -> None:
    """Append a correction; WriteError if the file would have more than `most` bytes.

    Several processes may do so at a time, and a correction that is written survives a crash.
    """
    time = datetime.now(UTC).isoformat(timespec="seconds")
    line = encode_json({**columns, **({} if output is None else {"output": output}), "time": time})
    path = folder / CORRECTIONS
    with alone(folder / LOCK), writing(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_FOLLOW, 0o666)
        with os.fdopen(descriptor, "ab") as file:
            if os.fstat(descriptor).st_size + len(line) > most:
                raise WriteError(f"{path} has {most:,} bytes; train with it, and move it away")
            file.write(line)
            file.flush()
            os.fsync(descriptor)
