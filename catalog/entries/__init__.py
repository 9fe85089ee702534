"""What can be certified: one YAML file for each category, and its model."""
