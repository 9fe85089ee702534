"""A real Kubernetes with Argo Workflows on one machine, for tests, without a container engine."""
