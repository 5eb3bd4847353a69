"""The trace of one prediction."""
