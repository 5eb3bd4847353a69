"""`seqwright predict`: one output line for each input line."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from seqwright.commands.growing import print_growing

if TYPE_CHECKING:
    from seqwright.data.readers.files import Input
    from seqwright.data.readers.lines import Decoding
    from seqwright.prediction.bulk.blocks import Shard
    from seqwright.prediction.predictor import Predictor
    from seqwright.search.request import SearchRequest

T = TypeVar("T")

FILES = (".txt", ".md", ".tsv", ".csv", ".json", ".jsonl", ".conll", ".conllu")  # endings of files of inputs
WRITING = ("length", "samples", "stop", "horizon")  # options of language models and forecasters


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="Run folder.")
    source = (
        "File of inputs (default: standard input), a text or a prompt, or images and folders of images. "
        "For series: a file of their past (default: the training data)."
    )
    parser.add_argument("inputs", nargs="*", default=[], metavar="INPUT", help=source)
    output = "Output file. Running the same command again resumes an unfinished one."
    parser.add_argument("--output", metavar="F", help=output)
    parser.add_argument("--json", action="store_true", help="Write one JSON object per line, with scores.")
    parser.add_argument("--shard", metavar="i/n", help="Process part i of n; --output F becomes F.i-of-n.")
    parser.add_argument("--prefix", default="", metavar="TEXT", help="Text that each output must begin with.")
    parser.add_argument("--max-length", type=int, metavar="N", help="Maximum number of tokens of an output.")
    parser.add_argument("--threads", type=int, metavar="N", help="Number of CPU threads.")
    parser.add_argument("--encoding", default="utf-8", metavar="E", help="Input encoding; output is UTF-8.")
    choices = ("error", "replace")
    parser.add_argument(
        "--on-bad-bytes", choices=choices, default="error", help="Stop at invalid bytes, or replace them."
    )
    beam = parser.add_argument_group("beam search")
    beam.add_argument("--beam", type=int, metavar="N", help="Beam size (default: the run's); 1 is greedy.")
    nbest = "Number of outputs per input, separated by tabs (default: 1)."
    beam.add_argument("--nbest", dest="n_best", type=int, default=1, metavar="N", help=nbest)
    beam.add_argument("--length-penalty", type=float, metavar="X", help="Values over 0 favour long outputs.")
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--sample", action="store_true", help="Sample instead of using beam search.")
    sampling.add_argument("--temperature", type=float, metavar="T", help="Default: 1; 0 is greedy search.")
    sampling.add_argument("--top-k", type=int, metavar="K", help="Sample from the K most probable tokens.")
    sampling.add_argument("--top-p", type=float, metavar="P", help="Sample from the nucleus of mass P.")
    sampling.add_argument("--seed", type=int, metavar="N", help="Seed of the sampling.")
    writing = parser.add_argument_group("language models")
    writing.add_argument("--length", type=int, metavar="N", help="Number of tokens to generate.")
    writing.add_argument(
        "--samples", type=int, metavar="N", help="Continuations of each prompt (default: 1)."
    )
    writing.add_argument("--stop", action="append", metavar="TEXT", help="Stop before this text.")
    ranking_arguments(parser)
    series = parser.add_argument_group("series")
    series.add_argument("--horizon", type=int, metavar="N", help="Steps to forecast (default: the run's).")


def ranking_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options by which another model ranks the replies of a conversation."""
    ranking = parser.add_argument_group("ranking of replies")
    forward = "Rank retrieved replies by the probability that this generative run gives them."
    ranking.add_argument("--rank-by", metavar="RUN", help=forward)
    backward = "Rank generated replies by mutual information; this run predicts the last turn from a reply."
    ranking.add_argument("--mutual-information", metavar="RUN", help=backward)
    many = "Replies that are ranked (default: 20)."
    ranking.add_argument("--candidates", type=int, metavar="N", help=many)


def run(options: argparse.Namespace) -> None:
    requested, shard, decoding = _checked(options)
    from seqwright.data.images import is_home
    from seqwright.data.readers.files import Input
    from seqwright.errors import ConfigError, InputError
    from seqwright.prediction.bulk.job import Job
    from seqwright.prediction.bulk.output import check_output
    from seqwright.prediction.predictor import load
    from seqwright.prediction.ranking import with_ranking
    from seqwright.runs.folder import check_order

    first = options.inputs[0] if options.inputs else None
    options.input = "-" if first is None else first
    check_order(options.folder, options.input)
    output = None if options.output is None else Path(options.output)
    if output is not None:
        check_output(output if shard is None else shard.path(output), options.inputs)
    predictor = with_ranking(load(options.folder, threads=options.threads), options)
    if len(options.inputs) > 1 and predictor.task.usage.file != "item":
        raise ConfigError(f"predict got {len(options.inputs)} inputs; name one file, or quote the text")
    given = requested.given() | ({"prefix": options.prefix} if options.prefix else {})
    given |= {name: getattr(options, name) for name in WRITING if getattr(options, name) is not None}
    source = Input(options.input)
    if predictor.task.usage.file == "whole":
        lines = first is not None and _has_json_lines(source)
        if not (lines and options.json):  # which have a line of output for each line
            if shard is not None:
                raise ConfigError("--shard divides JSON lines that are answered with --json; leave it out")
            try:
                return _answer_whole(predictor, None if first is None else source, options, given, decoding)
            except ConfigError as error:
                raise error.renamed(_flags(*given)) from error
    if _is_text(predictor, options.input):
        try:
            return _answer_prompt(predictor, options, given)
        except ConfigError as error:
            raise error.renamed(_flags(*given)) from error
    try:
        source, rows = _named(predictor, options.inputs) or source, _rows(predictor, options)
        paths = any(map(is_home, options.inputs))  # the order of a folder is not the user's own
        ways: dict[str, Any] = {"json": options.json, "named": paths, "decoding": decoding, "shard": shard}
        job = Job(predictor, source, given, **ways, rows=rows, report=_report)
        if source.is_terminal:
            _report("enter one input per line; Ctrl-D ends")
        job.run(job.output(output))
    except ConfigError as error:
        raise ConfigError(_with_flags(str(error.renamed(_flags(*given, "sample"))))) from error
    except InputError as error:
        hint = "" if predictor.task.usage.file == "item" else _hint_for_text(options)
        raise InputError(_with_flags(str(error)) + hint) from error
    except KeyboardInterrupt:
        if options.output and options.input != "-":
            _report("stopped; run the same command again to resume")
        raise


def _is_text(predictor: Predictor, given: str) -> bool:
    """Whether INPUT is a text, not the name of a file. A text has a space; a prompt may be one word, but it
    does not end like a file.
    """
    from seqwright.files import uncompressed

    usage = predictor.task.usage
    if usage.file != "lines" or given == "-" or os.path.lexists(given):
        return False
    if uncompressed(given).suffix.lower() in FILES:
        return False
    return usage.prompted or any(map(str.isspace, given))


def _named(predictor: Predictor, inputs: list[str]) -> Input | None:
    """Return the images that are inputs, with those in folders, as lines; None for a file of lines."""
    from seqwright.data.readers.files import GivenLines, is_text

    if predictor.task.usage.file != "item" or not inputs or inputs == ["-"] or is_text(inputs[0]):
        return None
    return GivenLines(predictor.task.to_line(each) for each in predictor.task.inputs(inputs))


def _rows(predictor: Predictor, options: argparse.Namespace) -> Any:
    """Return the inputs of a file in a layout of training data; None for a file of lines."""
    from dataclasses import replace

    from seqwright.config import Config
    from seqwright.data.readers.files import Input

    if predictor.task.usage.file != "lines" or Input(options.input).single_pass:
        return None
    data = (predictor.config or Config()).data
    read = replace(data, encoding=options.encoding, on_bad_bytes=options.on_bad_bytes)
    return predictor.task.file_inputs(options.input, read)


def _answer_prompt(predictor: Predictor, options: argparse.Namespace, given: dict[str, Any]) -> None:
    """Write the answers to a prompt or a text, on a terminal as they grow."""
    growing = predictor.task.usage.streams and sys.stdout.isatty()
    if growing and not (options.json or options.output or (options.samples or 1) > 1):
        predictor.task.request(predictor.search, **given)
        print_growing(predictor.typed(options.input, **given), before=options.input)
    else:
        _write_answers(predictor, options, given)
    if unknown := list(predictor.task.unknown_symbols(options.input)):
        _report(f"the text has symbols that are unknown to the model: {' '.join(map(repr, unknown[:8]))}")


def _write_answers(predictor: Predictor, options: argparse.Namespace, given: dict[str, Any]) -> None:
    """Write all answers to a prompt or a text."""
    import json

    from seqwright.files import write_text
    from seqwright.prediction.bulk.job import InputWarnings

    (first,) = predictor.predict([predictor.task.from_line(options.input)], **given)
    if options.json:
        alone: dict[str, Any] = {"alternatives": []}
        rows = ((each.to_json() | alone if len(first.all) > 1 else each.to_json()) for each in first.all)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        text = "\n---\n".join(each.full_text for each in first.all) + "\n"
        warnings = InputWarnings(predictor, "the text")
        warnings.add(0, first)
        for line in warnings.unsure_answers:
            _report(line)
    if options.output is None:
        print(text, end="")
    else:
        write_text(Path(options.output), text, follow=True)


def _has_json_lines(source: Input) -> bool:
    """Whether an input begins like a line of JSON. What is typed is taken for it."""
    if source.is_terminal:
        return True
    first = next((start for block in source.peek() if (start := block.lstrip(b"\xef\xbb\xbf \t\r\n"))), b"")
    return first.startswith((b"{", b"["))


def _answer_whole(
    predictor: Predictor,
    source: Input | None,
    options: argparse.Namespace,
    given: dict[str, Any],
    decoding: Decoding,
) -> None:
    """Write the answers to all inputs of a file together; without one, to the training data of the run."""
    from seqwright.files import encode_json, write_text

    inputs, remarks = _whole_inputs(predictor, source, options, decoding)
    found = predictor.predict(inputs, **given)
    if options.json:
        text = b"".join(encode_json(each.to_json()) for each in found).decode()
    else:
        text = predictor.task.written(found)
    if options.output is None:
        print(text, end="")
    else:
        write_text(Path(options.output), text, follow=True)
    for line in (*remarks, *predictor.task.remarks(inputs, found)):
        _report(line)


def _whole_inputs(
    predictor: Predictor, source: Input | None, options: argparse.Namespace, decoding: Decoding
) -> tuple[list[Any], list[str]]:
    """Return the inputs of a table or of lines of JSON, and sentences on what was changed in them."""
    from dataclasses import replace

    from seqwright.config import Config
    from seqwright.data.read_report import ReadReport
    from seqwright.prediction.bulk.blocks import line_blocks
    from seqwright.prediction.bulk.job import parsed

    task, config, report = predictor.task, predictor.config or Config(), ReadReport()
    data = replace(config.data, encoding=options.encoding, on_bad_bytes=options.on_bad_bytes)

    def read(paths: Sequence[str]) -> list[Any]:
        reader = task.own_reader(paths, data)
        found = task.whole_inputs(reader)
        for _ in reader.read(report):
            break  # counts what was changed
        return found

    if source is None:
        return read(config.data.train), report.summary()
    if _has_json_lines(source):
        if source.is_terminal:
            _report("enter one input per line; Ctrl-D ends")
        blocks = line_blocks(source, decoding, report)
        return [each for block in blocks for each in parsed(task, source.name, block)], report.summary()
    with source.as_file() as path:
        found = read((path,))
        return found, [line.replace(path, source.name) for line in report.summary()]


def _checked(options: argparse.Namespace) -> tuple[SearchRequest, Shard | None, Decoding]:
    """Return the parsed options. One error reports all that are invalid, by the names of their flags."""
    from dataclasses import fields, replace

    from seqwright.config import SearchConfig
    from seqwright.data.readers.lines import Decoding
    from seqwright.errors import ConfigError, Problem
    from seqwright.prediction.bulk.blocks import Shard
    from seqwright.search.request import SearchRequest

    problems: list[Any] = []

    def collect(make: Callable[[], T]) -> T | None:
        try:
            return make()
        except ConfigError as error:
            problems.extend(error.problems)
            return None

    names = [field.name for field in fields(SearchRequest)]
    requested = SearchRequest(**{name: getattr(options, name) for name in names})
    collect(lambda: replace(requested, seed=None).options(SearchConfig()))  # the task decides if it draws
    shard = collect(lambda: Shard.parse(options.shard)) if options.shard is not None else None
    decoding = collect(lambda: Decoding(options.encoding, options.on_bad_bytes))
    if options.threads is not None and options.threads < 1:
        problems.append(Problem("threads", options.threads, "it must be at least 1"))
    if problems or decoding is None:
        raise ConfigError(*problems).renamed(_flags(*names, "threads", "shard"))
    return requested, shard, decoding


def _flags(*names: str) -> dict[str, str]:
    return {name: f"--{name.replace('_', '-')}" for name in names} | {"n_best": "--nbest"}


def _hint_for_text(options: argparse.Namespace) -> str:
    """Return a hint for users who gave a text in place of a file."""
    from seqwright.runs.report.wording import shell_word

    if options.input == "-" or os.path.lexists(options.input):
        return ""
    text, folder = shell_word(options.input), shlex.quote(options.folder)
    return f"; if it is a text, pass it on standard input: echo {text} | seqwright predict {folder}"


def _with_flags(message: str) -> str:
    """Replace the configuration keys in an error by the flags of this command."""
    message = message.replace("data.encoding=", "--encoding ").replace("raise max_", "raise --max-")
    return message.replace("data.on_bad_bytes=", "--on-bad-bytes ").replace(", or raise data.max_line", "")


def _report(text: str) -> None:
    print(f"seqwright: {text}", file=sys.stderr)
