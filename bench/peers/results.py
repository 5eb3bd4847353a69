"""The results: a JSON line per contender and contest, and the tables made of them.

A line has the rates of the contender and those of Seqwright in the same run. Only such ratios are comparable,
so lines of different days can share a table.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.contest import Entry
from bench.tables import markdown

RESULTS = Path(__file__).parent.parent / "results" / "peers.jsonl"
OURS = "Seqwright"
BATCHES = {"own": "each with the batches that it makes itself", "ours": "all with Seqwright's batches"}
SEARCHES = ((1, 1), (5, 1), (1, 32), (5, 32))  # (beam, rows)

Record = dict[str, Any]


def records_of(contest: Record, entries: Sequence[Entry]) -> list[Record]:
    """Records of a contest; Seqwright is the first of the entries."""
    ours = entries[0]
    return [
        {
            **contest,
            "name": entry.name,
            "rates": entry.rates,
            "seqwright": ours.rates,
            "memory": entry.memory,
            "failure": entry.failure,
            **entry.facts,
        }
        for entry in entries
    ]


def append(path: Path, records: Iterable[Record]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def read(path: Path) -> list[Record]:
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    )


def tables(records: Sequence[Record], names: Sequence[str]) -> str:
    """Tables of the latest line of each contender in each contest; `names` are the expected contenders, in
    their order.
    """
    parts = [_training(records, names, *kind) for kind in _kinds(records, "train", ("shape", "asked"))]
    parts += [_decoding(records, names, shape) for (shape,) in _kinds(records, "decode", ("shape",))]
    return "\n\n".join(parts) or "Not measured yet."


def summary(record: Record) -> str:
    """One line for the terminal."""
    if record["failure"]:
        return f"  {record['name']:34s} not run: {record['failure']}"
    facts = [
        f"{record[name]:{form}} {word}"
        for name, form, word in (
            ("parameters", ",", "parameters"),
            ("first_loss", ".2f", "first loss"),
            ("padding_efficiency", ".2f", "tokens per place"),
        )
        if name in record
    ]
    rate = f"{_rate(record):>22s}  Seqwright {_ratio(record):7s}"
    return f"  {record['name']:34s} {rate} {', '.join([*facts, _megabytes(record)])}"


def _training(records: Sequence[Record], names: Sequence[str], shape: str, batches: str) -> str:
    found = _latest(
        [r for r in records if r["what"] == "train" and (r["shape"], r["asked"]) == (shape, batches)]
    )
    rows = [
        [
            record["name"],
            _rate(record),
            _ratio(record),
            f"{record['padding_efficiency']:.2f}",
            f"{record['first_loss']:.2f}",
            f"{record['parameters']:,}",
            _megabytes(record),
        ]
        for record in _ran(found, names)
    ]
    head = ["", "tokens a second", "Seqwright is", "tokens / places", "first loss", "parameters", "memory"]
    title = f"**Training, `{shape}`, {BATCHES[batches]}**"
    return "\n\n".join([title, markdown(head, rows), *_not_run(found, names)])


def _decoding(records: Sequence[Record], names: Sequence[str], shape: str) -> str:
    mine = [record for record in records if record["what"] == "decode" and record["shape"] == shape]
    searches = [_latest([r for r in mine if (r["beam"], r["rows"]) == search]) for search in SEARCHES]
    everyone = _latest(mine) | _latest([record for record in mine if not record["failure"]])
    rows = [
        [name, *(_cell(found[name]) if name in found else "–" for found in searches)]
        for name in (record["name"] for record in _ran(everyone, names))
    ]
    head = ["", *(f"{_search(beam)}, {count} at a time" for beam, count in SEARCHES)]
    title = f"**Decoding, `{shape}`** (tokens a second; in brackets how many times as fast Seqwright is)"
    return "\n\n".join([title, markdown(head, rows), *_not_run(everyone, names)])


def _search(beam: int) -> str:
    return "greedy" if beam == 1 else f"beam {beam}"


def _kinds(records: Sequence[Record], what: str, fields: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The kinds of contests, in the order of their first measurement."""
    return list(dict.fromkeys(tuple(r[field] for field in fields) for r in records if r["what"] == what))


def _latest(records: Sequence[Record]) -> dict[str, Record]:
    return {record["name"]: record for record in records}


def _order(found: Iterable[str], names: Sequence[str]) -> list[str]:
    """Seqwright, then `names`, then all others."""
    return [name for name in dict.fromkeys([OURS, *names, *found]) if name in set(found)]


def _ran(found: dict[str, Record], names: Sequence[str]) -> list[Record]:
    return [found[name] for name in _order(found, names) if not found[name]["failure"]]


def _not_run(found: dict[str, Record], names: Sequence[str]) -> list[str]:
    """A line with the contenders that failed or were not tried, and the reasons."""
    reasons = {name: "not tried" for name in names if name not in found}
    reasons |= {name: record["failure"] for name, record in found.items() if record["failure"]}
    return [f"Not run: {'; '.join(f'{name} ({why})' for name, why in reasons.items())}."] if reasons else []


def _rate(record: Record) -> str:
    rates = record["rates"]
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f}–{max(rates):,.0f})"


def _ratio(record: Record) -> str:
    if record["name"] == OURS or not record["seqwright"]:
        return "–"
    return f"× {statistics.median(record['seqwright']) / statistics.median(record['rates']):.2f}"


def _cell(record: Record) -> str:
    if record["failure"]:
        return f"not run: {record['failure']}"
    ratio = _ratio(record)
    rate = f"{statistics.median(record['rates']):,.0f}"
    return rate if ratio == "–" else f"{rate} ({ratio})"


def _megabytes(record: Record) -> str:
    return "–" if record["memory"] is None else f"{record['memory'] / 1e6:,.0f} MB"
