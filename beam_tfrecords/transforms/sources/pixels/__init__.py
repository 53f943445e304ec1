"""Reads images that are stored as numbers: finds their sizes, types, and the numbers of black and white."""
