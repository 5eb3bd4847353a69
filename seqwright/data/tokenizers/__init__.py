"""One file for each kind of tokenizer; the file name is the name of the kind."""

from seqwright.data.tokenizer import (
    BEGIN,
    END,
    PAD,
    TOKENIZERS,
    UNK,
    Losses,
    Piece,
    Tokenizer,
    Unknown,
    Vocabulary,
    from_json,
    load_tokenizer,
    train_tokenizer,
)

__all__ = [
    "BEGIN",
    "END",
    "PAD",
    "TOKENIZERS",
    "UNK",
    "Losses",
    "Piece",
    "Tokenizer",
    "Unknown",
    "Vocabulary",
    "from_json",
    "load_tokenizer",
    "train_tokenizer",
]
