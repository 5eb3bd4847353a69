"""Analysis and pruning of attention heads."""
