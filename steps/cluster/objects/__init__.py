"""Objects of a run: building them, and reading what pods say of themselves; pure."""
