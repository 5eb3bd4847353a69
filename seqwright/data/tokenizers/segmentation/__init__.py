"""What several kinds of tokenizers share: tables of parts, pieces of words, likelihood."""
