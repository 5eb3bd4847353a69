"""Shared bases of tasks; the registry skips sub-packages, so none of them is a task of its own."""
