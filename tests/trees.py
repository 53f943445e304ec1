"""Small trees of pictures and other files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cases.loading import content_of
from tests.cases.values import expand
from tests.pictures import picture

_PICTURE = re.compile(r"\.(?:png|jpe?g|tiff?|webp|bmp)$", re.IGNORECASE)


def write_tree(root: Path, pictures: str = "", files: Mapping[str, Any] | None = None, *, size: str = "16x16") -> Path:
    """Writes files below a folder; returns the folder.

    Args:
      root: the folder.
      pictures: names of pictures, no two alike, with braces as in a shell; `+` stands for a space.
      files: file -> description of a picture, bytes, text, or a value that is written as JSON or Parquet.
      size: of the pictures.
    """
    names = [name.replace("+", " ") for word in pictures.split() for name in expand(word)]
    contents = {name: picture(f"scene {size} {number}", name) for number, name in enumerate(names)}
    for name, value in (files or {}).items():
        is_picture = isinstance(value, str) and _PICTURE.search(name)
        contents[name] = picture(value, name) if is_picture else content_of(name, value)
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root
