"""Annotated objects of an image as a listing holds them: boxes, keypoints, and polygons or run lengths."""
