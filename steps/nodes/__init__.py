"""Node lists: reading files of them, and the names on nodes that all agree on."""
