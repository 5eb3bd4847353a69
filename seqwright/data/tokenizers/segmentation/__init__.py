"""Shared code of several kinds of tokenizers: lookup tables, subwords, unigram training."""
