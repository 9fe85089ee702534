"""Talking to the Kubernetes API; nothing else does."""
