"""Shared parts of encoders; the registry skips sub-packages, so none of them is an encoder of its own."""
