"""Choices that the recipes of several tasks share."""
