"""Benchmarks: ``uv run python -m tests.bench NAME [--json]``."""
