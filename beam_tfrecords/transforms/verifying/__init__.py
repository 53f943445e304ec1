"""Verifies a finished dataset and reports all problems."""
