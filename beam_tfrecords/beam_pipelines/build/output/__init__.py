"""The output of a build: its lock, its location, its state, and the previous versions."""
