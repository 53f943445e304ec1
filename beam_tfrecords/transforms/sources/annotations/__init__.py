"""Datasets of annotated objects: images in folders, and files that say what is in them."""
