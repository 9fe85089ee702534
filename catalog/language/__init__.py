"""The language of bars and health rules: CEL over named figures."""
