"""Readers: files become records."""
