"""Measurements. Every number in docs/benchmarks.md is printed by a command of this package."""
