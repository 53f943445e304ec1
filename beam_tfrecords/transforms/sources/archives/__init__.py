"""Archives: folders inside an archive give the classes."""
