"""Detects the meaning of input files (splits, classes, masks, tables, annotations), and makes suggestions."""
