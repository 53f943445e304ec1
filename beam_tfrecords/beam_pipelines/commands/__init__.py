"""The commands, one per module: each turns a command line into text and an exit code; build steps are elsewhere."""
