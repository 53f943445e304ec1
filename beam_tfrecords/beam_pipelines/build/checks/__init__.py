"""Checks a request after its input is listed, before anything is converted."""
