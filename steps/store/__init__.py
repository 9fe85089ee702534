"""The record store: where documents lie between the steps, and what it holds of a category."""
