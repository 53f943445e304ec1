"""Samples that a function of the user makes."""
