"""Shards: consecutive parts, concatenated under their final names."""
