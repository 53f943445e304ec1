"""Identical images, above all in different splits."""
