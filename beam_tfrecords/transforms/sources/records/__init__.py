"""Files of records: datasets that are converted again."""
