"""Rules on the arguments of engines."""
