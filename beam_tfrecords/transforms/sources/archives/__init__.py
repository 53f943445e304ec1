"""Archives: the class is a folder inside the archive."""
