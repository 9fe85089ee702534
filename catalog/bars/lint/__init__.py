"""What is wrong, or looks wrong, with bars before anything is measured."""
