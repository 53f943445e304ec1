"""The commands: each turns a command line into text and an exit code. One module per command, no step of a build."""
