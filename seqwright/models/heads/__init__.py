"""Heads: hidden vectors become predictions and their loss. One file each; the file name is the key."""
