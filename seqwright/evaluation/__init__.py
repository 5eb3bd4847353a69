"""Scores with intervals, where a model fails, how fast it runs, and which of two models is better."""
