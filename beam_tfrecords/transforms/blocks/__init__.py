"""Blocks: a block is a range of the order; its conversion turns references into parts, failures and counts."""
