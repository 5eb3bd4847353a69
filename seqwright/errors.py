"""The errors a user can cause. Each message is one line: the value, the rule, the way out.

The command line prints the message without a traceback and exits with `exit_code`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

_KEY = re.compile(r"\{([\w.-]+)\}")


def brief(value: object, most: int = 200) -> str:
    """Return the representation of a value for a message, cut if it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


@dataclass(frozen=True)
class Problem:
    """A value that breaks a rule. The rule may refer to other keys in braces: "it must be at most {size}"."""

    key: str
    value: Any
    rule: str

    def renamed(self, names: Mapping[str, str]) -> Problem:
        """Return the problem with other names for its keys, such as those of command-line flags."""
        rule = _KEY.sub(lambda key: f"{{{names.get(key[1], key[1])}}}", self.rule)
        return replace(self, key=names.get(self.key, self.key), rule=rule)

    def __str__(self) -> str:
        return f"{self.key} is {brief(self.value)}; " + _KEY.sub(r"\1", self.rule)


class SeqwrightError(Exception):
    """Base of all errors that are not bugs. Its arguments are problems, or complete lines."""

    exit_code = 2

    @property
    def problems(self) -> tuple[Problem | str, ...]:
        return self.args

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the same error with other names for the keys of its problems; lines stay as they are."""
        renamed = (each.renamed(names) if isinstance(each, Problem) else each for each in self.args)
        return type(self)(*renamed)

    def __str__(self) -> str:
        return "; ".join(dict.fromkeys(map(str, self.args)))


class ConfigError(SeqwrightError):
    """A wrong key, value or combination of options."""


class InputError(SeqwrightError):
    """A file or a text that cannot be used, with its location."""


class UnusableInput(InputError):
    """One input that cannot be used; the inputs next to it can."""


class ModelError(SeqwrightError):
    """A missing, damaged or incompatible model or checkpoint."""

    exit_code = 3


class WriteError(SeqwrightError):
    """An output or a checkpoint that cannot be written."""

    exit_code = 4


class DivergedError(SeqwrightError):
    """Training whose loss or gradients stay infinite or NaN."""

    exit_code = 5
