"""A fleet that is not there: prints what the real tools print, from a seed, on a virtual clock."""
