"""Encoders: a source becomes vectors for a decoder or a head. One file each; the file name is the key."""
