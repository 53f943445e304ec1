"""The commands: words of a command line in, text and an exit code out. One module a command; no step of a build."""
