"""The first half of a build: opens the source and lists its samples, in this process or in workers."""
