"""What machines are and what speaks against one: platforms, profiles, health rules."""
