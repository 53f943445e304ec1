"""Concatenates consecutive parts to shards under their final names."""
