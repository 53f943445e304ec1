"""Pixel arrays: each image is a byte range, and labels are stored separately."""
