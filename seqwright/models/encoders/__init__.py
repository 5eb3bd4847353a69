"""Encoders: a source becomes states that a decoder can look at. One file each; the file name is the key."""
