"""What can be certified: entries, profiles, stages and bars, and the code that resolves them."""
