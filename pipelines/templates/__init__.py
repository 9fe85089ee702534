"""The Argo objects of readiness, as Hera definitions: thin typed builders, one concept a module."""
