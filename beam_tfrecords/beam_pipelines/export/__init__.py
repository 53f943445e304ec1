"""Writes a finished dataset as ordinary files, which `convert` reads again."""
