"""What a build says of the images that it stores."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from PIL import ExifTags, Image

from tests.beam_pipelines.dataset_checks import manifest_of

KEEP = "--image_encoding=keep"


def index_of(out: Path) -> dict[str, dict]:
    """Key -> index row."""
    return {row["key"]: row for file in (out / "index").iterdir() for row in pq.read_table(file).to_pylist()}


def turned(number: int) -> Image.Exif:
    """EXIF data with an orientation."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = number
    return exif


def test_kept_files_with_an_orientation_are_counted_and_the_ways_out_are_right(tmp_path, picture, save, convert, read):
    for number in (1, 3, 6):
        save(tmp_path / f"in/cat/{number}.jpg", picture(number, 30, 50), exif=turned(number))
    flags = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--overwrite"]
    ran = convert(*flags, KEEP)
    note = "note: kept files with an EXIF orientation, which no reader of the dataset applies: 2; "
    assert f"{note}--image_encoding=jpeg stores them upright, --orientation=ignore says" in ran.out
    assert manifest_of(tmp_path / "out")["kept_turned"] == 2
    rows = index_of(tmp_path / "out")
    assert {key: row["kept_orientation"] for key, row in rows.items()} == {
        "cat/1.jpg": None,
        "cat/3.jpg": 3,
        "cat/6.jpg": 6,
    }
    assert note not in convert(*flags, KEEP, "--orientation=ignore").out
    assert note not in convert(*flags, "--image_encoding=jpeg").out
    rows = index_of(tmp_path / "out")
    assert (rows["cat/6.jpg"]["height"], rows["cat/6.jpg"]["width"]) == (50, 30)
