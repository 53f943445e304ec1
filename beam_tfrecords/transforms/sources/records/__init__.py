"""Record files: existing datasets that are converted again."""
