"""Looking inside: what a model attends to, got out without changing what it does."""
