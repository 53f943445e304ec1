"""The files of a finished dataset: manifest, index, versions, label files, and their names; no reader of records."""
