"""What people write, read strictly: YAML that knows its lines, typed documents, quantities."""
