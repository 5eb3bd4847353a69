"""Many lines in, as many lines out: in blocks, in order, and so that a kill costs no more than a block."""
