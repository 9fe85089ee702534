"""What runs and in which order: the local runner, the command line, the workflow definitions."""
