"""Finds identical and nearly identical images, above all in different splits."""
