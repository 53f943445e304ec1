"""Datasets of annotated objects: images in folders, and annotation files."""
