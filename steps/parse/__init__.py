"""Reads what the tools printed: pure streaming parsers that produce Measurements."""
