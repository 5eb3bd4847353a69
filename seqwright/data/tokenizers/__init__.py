"""Kinds of tokenizers, one file each; the file name is the name of the kind."""
