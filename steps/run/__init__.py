"""The run step: one group, launched on the cluster or answered by a fleet."""
