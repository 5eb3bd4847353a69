"""The configuration of a training: tables of options, read from TOML, JSON or `key=value`."""

from seqwright.config.parsing import override, parse, read
from seqwright.config.tables import Config, DataConfig, SearchConfig, Spec, TokenizerConfig, TrainingConfig
from seqwright.config.toml_text import read_toml, to_toml

__all__ = ["Config", "DataConfig", "SearchConfig", "Spec", "TokenizerConfig", "TrainingConfig"]
__all__ += ["override", "parse", "read", "read_toml", "to_toml"]
