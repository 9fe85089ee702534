"""``python -m pipelines.cli`` is the same as ``readiness``."""

from pipelines.cli.app import main

main()
