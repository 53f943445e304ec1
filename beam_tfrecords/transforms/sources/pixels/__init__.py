"""Reads images that are stored as numbers, and finds the features with their sizes."""
