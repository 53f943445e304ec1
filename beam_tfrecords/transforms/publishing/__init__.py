"""Publishing: turns counts and shards into a dataset with metadata."""
