"""Judges measurements: per expression, per group, per category and node."""
