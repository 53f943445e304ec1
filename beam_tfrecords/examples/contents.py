"""The contents of samples: sources provide some of them, and layouts need some."""

from __future__ import annotations

import enum


class Content(enum.Enum):
    """A kind of content that a source provides and a layout needs; the value is its name in messages."""

    IMAGE = "images"
    IMAGES = "several images"
    MASK = "masks"
    OBJECTS = "objects"
    POLYGONS = "polygons of objects"
    KEYPOINTS = "keypoints of objects"
    CAPTIONS = "captions"
    LABEL = "labels"
    COLUMNS = "columns"
