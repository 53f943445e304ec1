"""Annotated objects of an image in a listing: boxes, keypoints, and polygons or run lengths."""
