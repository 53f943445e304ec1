"""The files of a finished dataset except its records: manifest, index, versions, label files, and their names."""
