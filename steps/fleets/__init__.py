"""Fleets that answer for a cluster: recorded, or simulated."""
