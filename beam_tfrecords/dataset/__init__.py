"""A dataset as its files describe it: names, manifest, index, shards, versions and pointers; never its records."""
