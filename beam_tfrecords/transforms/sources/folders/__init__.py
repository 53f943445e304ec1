"""Folders and globs of images."""
