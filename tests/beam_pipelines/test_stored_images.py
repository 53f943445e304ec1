"""What a build says of the images that it stores."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from PIL import ExifTags, Image, ImageFilter

from beam_tfrecords import open_dataset
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.image_writers import png_file
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

KEEP = "--image_encoding=keep"


def index_of(out: Path) -> dict[str, dict]:
    """Key -> index row."""
    return {row["key"]: row for file in (out / "index").iterdir() for row in pq.read_table(file).to_pylist()}


def write_png(path: Path, pixels: np.ndarray) -> None:
    """Writes 16 bits per channel."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png_file(pixels))


def turned(number: int) -> Image.Exif:
    """EXIF data with an orientation."""
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = number
    return exif


def test_kept_files_with_an_orientation_are_counted_and_the_ways_out_are_right(tmp_path, picture, save, convert, read):
    for number in (1, 3, 6):
        save(tmp_path / f"in/cat/{number}.jpg", picture(number, 30, 50), exif=turned(number))
    flags = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--overwrite", "--class_names=cat"]
    ran = convert(*flags, KEEP)
    note = "note: kept files with an EXIF orientation, which no reader of the dataset applies: 2; "
    assert f"{note}--image_encoding=jpeg stores them upright, --orientation=ignore keeps them as they are" in ran.out
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


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("flags", [(), (KEEP,), ("--image_size=16",)])
def test_16_bits_that_become_nearly_black_are_noted_and_the_way_out_is_right(tmp_path, convert, channels, flags):
    pixels = np.linspace(0, 4095, 24 * 32 * channels).reshape(24, 32, channels).astype(np.uint16)
    for number in range(3):
        write_png(tmp_path / f"in/scan/{number}.png", pixels)
    write_png(tmp_path / "in/scan/bright.png", pixels * np.uint16(16))
    said = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--overwrite", "--layout=image"]
    ran = convert(*said, *flags)
    (line,) = [line for line in ran.out.splitlines() if "nearly black" in line]
    found = manifest_of(tmp_path / "out")["dim_images"]
    assert found["images"] == 3
    assert 13 <= found["maximum"] <= 16
    assert line.startswith(f"note: images of 16 bits that are nearly black in 8: 3, with {found['maximum']} of 255 as ")
    assert line.endswith("; --image_encoding=png --bit_depth=16 stores their values as they are")
    assert index_of(tmp_path / "out")["scan/bright.png"]["stored_maximum"] > 200
    ran = convert(*said, "--image_encoding=png", "--bit_depth=16")
    assert "nearly black" not in ran.out
    image = next(
        image for image in load(tmp_path / "out", "train").as_numpy_iterator() if image["filename"] == b"1.png"
    )
    np.testing.assert_array_equal(image["image"], np.broadcast_to(pixels, (24, 32, 3)))


def test_a_dark_image_among_bright_ones_is_not_noted(tmp_path, convert):
    pixels = np.linspace(0, 65535, 24 * 32).reshape(24, 32).astype(np.uint16)
    for number, gain in enumerate((1, 1, 20)):
        write_png(tmp_path / f"in/scan/{number}.png", pixels // np.uint16(gain))
    ran = convert(f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--layout=image")
    assert "nearly black" not in ran.out
    assert index_of(tmp_path / "out")["scan/2.png"]["stored_maximum"] == 13


def test_8_bits_lose_nothing_that_is_noted(tmp_path, save, convert):
    save(tmp_path / "in/dark/1.png", np.full((8, 8), 3, np.uint8))
    ran = convert(f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--layout=image")
    assert "nearly black" not in ran.out
    assert index_of(tmp_path / "out")["dark/1.png"]["stored_maximum"] is None


@pytest.mark.nightly
def test_bad_photos_are_found_by_the_columns_of_quality(photos, tmp_path, build):
    shutil.copytree(photos, tmp_path / "in")
    photo = Image.open(photos / "cat/cat_03.jpg")
    faults = {
        "sharpness": photo.filter(ImageFilter.GaussianBlur(12)),
        "brightness": photo.point(lambda value: value // 30),
        "contrast": Image.blend(photo, Image.new("RGB", photo.size, "grey"), 0.97),
    }
    for column, image in faults.items():
        image.save(tmp_path / f"in/cat/{column}.jpg", quality=95)
        records = open_dataset(build(tmp_path / f"of_{column}", f"--input={tmp_path / 'in'}", "--image_size=256"))
        rows = index_of(Path(records.path))
        assert min(rows, key=lambda key: rows[key][column]) == f"cat/{column}.jpg"
        found = records.records("train").filter(pc.field(column) <= rows[f"cat/{column}.jpg"][column])
        assert [example["filename"] for example in found] == [f"{column}.jpg"]
        (tmp_path / f"in/cat/{column}.jpg").unlink()


@pytest.mark.parametrize("count", [3, 130])
def test_every_row_has_the_values_of_its_own_image(tmp_path, picture, save, build, count):
    for number in range(count):
        save(tmp_path / f"in/cat/{number}.png", np.full((8, 8, 3), number, np.uint8))
    rows = index_of(build(tmp_path / "out", f"--input={tmp_path / 'in'}", "--image_encoding=raw", "--layout=image"))
    brightness = {key: row["brightness"] for key, row in rows.items()}
    assert brightness == {f"cat/{number}.png": number for number in range(count)}
    assert {(row["contrast"], row["sharpness"]) for row in rows.values()} == {(0, 0)}


def test_kept_files_have_no_quality(photos, tmp_path, build):
    rows = index_of(build(tmp_path / "out", f"--input={photos}", KEEP))
    names = ("brightness", "contrast", "sharpness", "phash")
    assert {row[name] for row in rows.values() for name in names} == {None}
