"""Blocks: the references of a range of the order in, parts, failures and counts out."""
