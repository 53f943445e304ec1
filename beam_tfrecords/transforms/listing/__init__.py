"""The listing: all references of an input, their splits and their order."""
