"""The contents of samples: sources provide some of them, and layouts need some."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any


class Content(enum.Enum):
    """A kind of content that a source provides and a layout needs; the value is its name in messages."""

    IMAGE = "images"
    IMAGES = "several images"
    ARRAY = "arrays"
    MASK = "masks"
    OBJECTS = "objects"
    POLYGONS = "polygons of objects"
    OBJECT_MASKS = "masks of objects"
    KEYPOINTS = "keypoints of objects"
    CAPTIONS = "captions"
    LABEL = "labels"
    COLUMNS = "columns"
    RECORDS = "records"


def contents_in(found: Mapping[Content, Any]) -> frozenset[Content]:
    """Returns the contents whose values are true."""
    return frozenset(content for content, is_there in found.items() if is_there)


# Outlines of objects. A source with polygons provides both, because masks are drawn from polygons.
OUTLINES = frozenset({Content.POLYGONS, Content.OBJECT_MASKS})
# Contents that name classes.
CLASSES = frozenset({Content.LABEL, Content.OBJECTS})
