"""Benchmarks. Commands of this package print every number in docs/benchmarks.md."""
