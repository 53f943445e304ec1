from __future__ import annotations

from pathlib import Path

import pytest

from tests.transforms.sources.documents.formats import IMAGES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the images, whose content is not read."""
    for name in IMAGES:
        (tmp_path / name).write_bytes(b"pixels")
    return tmp_path
