"""The programs of the DAG: thin shells that read documents, call a core and write a document.

Each exits 0 once its document is written; only aggregate exits by the verdict.
"""
