"""Applies users' functions to samples between decoding and storing."""
