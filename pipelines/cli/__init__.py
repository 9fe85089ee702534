"""The `readiness` command: thin shells around the cores."""
