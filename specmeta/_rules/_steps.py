"""Rules between recorded steps."""
