"""Converts blocks, which are ranges of the order, from references to parts, failures and counts."""
