"""The aggregate step: all verdicts become one report."""
