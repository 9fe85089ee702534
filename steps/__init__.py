"""The programs inside the DAG: detect, run, parse, evaluate, isolate, aggregate."""
