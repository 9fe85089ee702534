"""Watching a run: outputs, events, nodes and pods, and why it cannot go on."""
