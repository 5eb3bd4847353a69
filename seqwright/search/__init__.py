"""Search over anything that has `step(tokens, state)` and `state.select(rows)`. Imports no model."""
