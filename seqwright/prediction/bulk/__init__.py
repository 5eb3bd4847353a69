"""Bulk prediction: one output line for each input line, in order and in blocks. A kill loses one block."""
