"""The errors a user can cause. Each message is one line: the value, the rule, the way out.

The command line prints the message without a traceback and leaves with `exit_code`.
"""


class SeqwrightError(Exception):
    """Base of all errors that are not bugs."""

    exit_code = 2


class ConfigError(SeqwrightError):
    """A wrong key, value or combination of options."""


class InputError(SeqwrightError):
    """A file or a text that cannot be used, named with its place."""


class ModelError(SeqwrightError):
    """No usable or compatible model or checkpoint."""

    exit_code = 3


class WriteError(SeqwrightError):
    """An output or a checkpoint that cannot be written."""

    exit_code = 4


class DivergedError(SeqwrightError):
    """Training that left the finite numbers and did not come back."""

    exit_code = 5
