"""Detect: which nodes, what they are, and what will run on them."""
