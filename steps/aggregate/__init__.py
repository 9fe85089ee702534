"""Turns plan and verdicts into the report, and the report into what people and machines read."""
