"""`export`: every layout and format becomes files and a table with a row for each record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from beam_tfrecords import build
from tests.every_input import EVERY, write_input
from tests.published import read_published

_ENCODINGS = ("jpeg", "png", "webp", "raw", "keep")


def check_exported(root: Path, **settings: Any) -> None:
    """Exports a dataset; compares the table with the records, and the files with the table."""
    dataset = build(output=str(root / "out"), quiet=True, name="x", **settings)
    dataset.export(root / "folder")
    rows = pq.read_table(root / "folder/samples.parquet").to_pylist()
    expected = [(record.split, record.key) for record in read_published(dataset.path).records]
    assert [(row["split"], row["key"]) for row in rows] == expected
    files = {path.relative_to(root / "folder").as_posix() for path in root.rglob("folder/**/*") if path.is_file()}
    cells = {str(one) for row in rows for cell in row.values() for one in (cell if type(cell) is list else [cell])}
    assert files - cells == {"samples.parquet", *(name for name in files if name.startswith("annotations/"))}
    columns = [one.image or "image" for one in dataset.layout.features if one.holds_image]
    assert all(row[name] == [] or row[name] for row in rows for name in columns)


# Compressed datasets are refused.
@pytest.mark.parametrize("name", [name for name in EVERY if "gzip" not in name])
def test_everything_is_exported(tmp_path, name):
    check_exported(tmp_path, **write_input(name, tmp_path / "in"))


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", _ENCODINGS)
@pytest.mark.parametrize("name", [name for name in EVERY if name.startswith("source ")])
def test_every_encoding_is_exported(tmp_path, name, encoding):
    check_exported(tmp_path, **write_input(name, tmp_path / "in") | {"image_encoding": encoding})
