"""Decoders: tokens and a state become vectors and the next state. One file each; the file name is the key."""
