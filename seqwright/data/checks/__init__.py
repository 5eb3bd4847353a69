"""Checks of the data doctor."""
