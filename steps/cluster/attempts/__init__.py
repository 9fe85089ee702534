"""Attempts of a group: taking turns, launching, trying again, leaving nothing behind."""
