"""Samples that a user function makes."""
