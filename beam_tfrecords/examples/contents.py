"""What a sample can have: sources provide some of it, and layouts need some."""

from __future__ import annotations

import enum


class Content(enum.Enum):
    """A kind of thing that a source provides and a layout needs; the value is its name in messages."""

    IMAGE = "images"
    IMAGES = "several images"
    MASK = "masks"
    OBJECTS = "objects"
    POLYGONS = "polygons of objects"
    KEYPOINTS = "keypoints of objects"
    CAPTIONS = "captions"
    LABEL = "labels"
    COLUMNS = "columns"
