"""Everything that needs a Kubernetes cluster; the only part that imports the kubernetes client."""
