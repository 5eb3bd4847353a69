"""From files to batches: reading, checking, tokenizers, the store and the plan."""
