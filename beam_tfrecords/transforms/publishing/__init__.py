"""Publishing: counts and shards in, a dataset with its metadata out."""
