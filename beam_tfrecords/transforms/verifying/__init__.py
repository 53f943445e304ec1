"""Verification: a finished dataset in, everything that is wrong with it out."""
