"""A real Kubernetes with Argo Workflows on one machine, for tests, without a container engine.

By hand, as root: `python -m tests.cluster up`, then `eval "$(python -m tests.cluster env)"`, and at
the end `python -m tests.cluster down`. In tests: the fixtures of `conftest.py`, with the marker
`cluster`. The first start builds everything from Go modules (a quarter of an hour on two cores) and
keeps it in the cache directory; the next ones take half a minute. All tests together take about 25
minutes on two cores; `python -m tests.bench gang-starts` uses the lab too.

What it is not: there is no kube-proxy, so services need `clusterIP: None`; pods reach each other
and the API server, not the world; devices are only counted; processors, memory and huge pages are
those of the machine, on each node again; pods with host network share the machine's ports.
"""
