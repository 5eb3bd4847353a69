"""Decoders: tokens and a state become hidden vectors and the next state. One file each; the file name is the
key.
"""
