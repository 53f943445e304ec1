"""What a build says of the images that it stores, of those of 16 bits and of bad ones."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import ExifTags, Image, ImageFilter

from beam_tfrecords import open_dataset
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.core.images.corpus import corpus
from tests.image_writers import P3_COLORANTS, icc_profile, png_file
from tests.published import read_published
from tests.tensorflow import load
from tests.trees import write_tree

pytestmark = pytest.mark.tensorflow
KEEP = "--image_encoding=keep"
DEEP = ["--image_encoding=png", "--bit_depth=16"]


def index_of(out: Path) -> dict[str, dict[str, Any]]:
    """Key -> index row."""
    return {row["key"]: row for file in (out / "index").iterdir() for row in pq.read_table(file).to_pylist()}


def test_kept_files_with_an_orientation_are_counted_and_the_ways_out_are_right(tmp_path, picture, save, convert):
    for number in (1, 3, 6):
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = number
        save(tmp_path / f"in/cat/{number}.jpg", picture(number, 30, 50), exif=exif)
    flags = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--overwrite", "--class_names=cat"]
    note = "note: kept files with an EXIF orientation, which no reader of the dataset applies: 2; "
    ways = "--image_encoding=jpeg stores them upright, --orientation=ignore keeps them as they are"
    assert f"{note}{ways}" in convert(*flags, KEEP).out
    assert manifest_of(tmp_path / "out")["kept_turned"] == 2
    kept = {key: row["kept_orientation"] for key, row in index_of(tmp_path / "out").items()}
    assert kept == {"cat/1.jpg": None, "cat/3.jpg": 3, "cat/6.jpg": 6}
    assert note not in convert(*flags, KEEP, "--orientation=ignore").out
    assert note not in convert(*flags, "--image_encoding=jpeg").out
    row = index_of(tmp_path / "out")["cat/6.jpg"]
    assert (row["height"], row["width"]) == (50, 30)


RAMP = np.linspace(0, 4095, 24 * 32 * 3).reshape(24, 32, 3)
# Name of the case -> pictures, largest stored value of the last picture, number of pictures with 16 bits.
DEPTHS = {
    "most are dim": ([RAMP, RAMP, RAMP, RAMP * 16], 255, 4),
    "of one channel": ([RAMP[..., :1]] * 3, 15, 3),
    "one is dark among bright ones": ([RAMP * 16, RAMP * 16, RAMP * 0.8], 12, 3),
    "8 bits": ([np.full((8, 8), 3, np.uint8)] * 2, None, 0),
}


@pytest.mark.parametrize("flags", [(), (KEEP,), ("--image_size=16",)])
@pytest.mark.parametrize("name", DEPTHS)
def test_16_bits_that_become_8_are_noted_and_the_way_out_is_right(tmp_path, convert, name, flags):
    pictures, last, count = DEPTHS[name]
    for number, pixels in enumerate(pictures):
        wide = pixels if pixels.dtype == np.uint8 else pixels.astype(np.uint16)
        path = write_tree(tmp_path / "in", files={f"{number}.bin": png_file(wide)}) / f"{number}.bin"
        path.rename(path.with_suffix(".png"))
    said = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--overwrite", "--layout=image"]
    ran = convert(*said, *flags)
    lines = [line for line in ran.out.splitlines() if "of 16 bits" in line]
    stored = index_of(tmp_path / "out")[f"{len(pictures) - 1}.png"]["stored_maximum"]
    assert stored == last if last is None else stored > 200 if last == 255 else abs(stored - last) <= 2
    if not count:
        assert not lines
        return
    found = manifest_of(tmp_path / "out")["dim_images"]
    assert found["images"] == count
    is_bright = max(map(np.max, pictures)) > 4095
    assert found["maximum"] > 200 if is_bright else 13 <= found["maximum"] <= 16
    start = f"note: images of 16 bits that become 8: {count}, with {found['maximum']} of 255 as the largest value; "
    assert lines[0].startswith(start)
    assert lines[0].endswith("--image_encoding=png --bit_depth=16 stores their values as they are")
    assert "of 16 bits" not in convert(*said, *DEEP).out
    images = {one["filename"]: one["image"] for one in load(tmp_path / "out", "train").as_numpy_iterator()}
    np.testing.assert_array_equal(images[b"1.png"], np.broadcast_to(pictures[1].astype(np.uint16), (24, 32, 3)))


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
        dataset = open_dataset(build(tmp_path / f"of_{column}", f"--input={tmp_path / 'in'}", "--image_size=256"))
        rows = index_of(Path(dataset.path))
        assert min(rows, key=lambda key: rows[key][column]) == f"cat/{column}.jpg"
        found = dataset.records("train").filter(f"{column} <= {rows[f'cat/{column}.jpg'][column]}")
        assert [example["filename"] for example in found] == [f"{column}.jpg"]
        (tmp_path / f"in/cat/{column}.jpg").unlink()


@pytest.mark.parametrize("count", [3, 130])
def test_every_row_has_the_values_of_its_own_image_and_kept_files_have_none(tmp_path, save, build, count):
    for number in range(count):
        save(tmp_path / f"in/cat/{number}.png", np.full((8, 8, 3), number, np.uint8))
    words = [f"--input={tmp_path / 'in'}", "--layout=image"]
    rows = index_of(build(tmp_path / "out", *words, "--image_encoding=raw"))
    assert {key: row["brightness"] for key, row in rows.items()} == {f"cat/{n}.png": n for n in range(count)}
    assert {(row["contrast"], row["sharpness"]) for row in rows.values()} == {(0, 0)}
    names = ("brightness", "contrast", "sharpness", "phash")
    kept = index_of(build(tmp_path / "kept", *words, KEEP)).values()
    assert {row[name] for row in kept for name in names} == {None}


# 16 bits.


def deep(seed: int) -> np.ndarray:
    """Returns 12 of 16 bits, [30, 50, 1 or 3] uint16."""
    return np.random.default_rng(seed).integers(0, 4096, (30, 50, 1 if seed % 2 else 3), dtype=np.uint16)


@pytest.fixture(scope="module")
def scans(tmp_path_factory) -> Path:
    """Gray images of 16 bits and images of 16 bits per color, of two classes."""
    root = tmp_path_factory.mktemp("scans") / "in"
    for number in range(6):
        file = root / f"{'gray' if number % 2 else 'color'}/{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png_file(deep(number)))
    return root


@pytest.mark.parametrize("channels", ["1", "3", "4", "keep"])
def test_16_bits_are_read_alike_described_and_verified(scans, tmp_path, build, run, verify, channels):
    out = build(tmp_path / "out", f"--input={scans}", *DEEP, f"--channels={channels}")
    records = {example["filename"]: example["image"] for example in open_dataset(out).records("train")}
    assert len(records) == 6
    for example in load(out, "train").as_numpy_iterator():
        name = example["filename"].decode()
        image = records[name]
        assert (image.dtype, image.shape[2]) == (np.uint16, 3 if channels == "keep" else int(channels))
        np.testing.assert_array_equal(image, example["image"])
        if channels != "1":
            np.testing.assert_array_equal(image[..., :3], np.broadcast_to(deep(int(name[0])), (30, 50, 3)))
    assert verify(out).code == 0
    if channels == "3":
        feature = json.loads((out / "features.json").read_text())["featuresDict"]["features"]["image"]["image"]
        assert (feature["dtype"], feature["encodingFormat"]) == ("uint16", "png")
        said = "a PNG of 30 x 50 pixels (height x width), RGB, 16 bits per channel"
        assert said in run("inspect", f"--dataset={out}").out


def test_verify_finds_images_of_other_bits(scans, tmp_path, build, verify):
    out = build(tmp_path / "out", f"--input={scans}", "--image_encoding=png")
    text = (out / "manifest.json").read_text()
    (out / "manifest.json").write_text(text.replace('"bit_depth": 8', '"bit_depth": 16'))
    ran = verify(out)
    assert (ran.code, ran.out.count("expected a PNG of 16 bits per channel")) == (1, 6)


def test_a_profile_that_cannot_be_applied_is_told_with_the_flag(scans, tmp_path, convert):
    shutil.copytree(scans, tmp_path / "in")
    profile = b"p\0\0" + zlib.compress(icc_profile(P3_COLORANTS, 2.2))
    (tmp_path / "in/color/9.png").write_bytes(png_file(deep(8), chunks=[(b"iCCP", profile)]))
    flags = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", *DEEP, "--max_failures=0.5"]
    ran = convert(*flags)
    assert "unsupported_mode" in ran.out
    assert "--color_profile=ignore stores the numbers as they are" in ran.out
    assert convert(*flags, "--overwrite", "--color_profile=ignore").code == 0
    assert manifest_of(tmp_path / "out")["records"] == 7


# One image in five is bad.


def test_bad_images_are_rejected_with_their_reasons_and_the_others_give_the_records_that_they_give_alone(
    photos, tmp_path, build
):
    broken = {f"{case.reason.value}-{name}": case.data for name, case in corpus().items() if case.reason is not None}
    names = sorted(broken)
    chosen = [names[place * len(names) // 10] for place in range(10)]  # as different as possible
    shutil.copytree(photos, tmp_path / "good")
    shutil.copytree(photos, tmp_path / "mixed")
    for number, name in enumerate(chosen):
        folder = sorted((tmp_path / "mixed").iterdir())[number % 7]
        (folder / name).with_suffix(".jpg").write_bytes(broken[name])
    flags = ["--name=photos", "--image_size=48", "--splits=train=0.8,validation=0.2", "--max_failures=0.3"]
    one, other = (
        read_published(build(tmp_path / f"{name}_out", f"--input={tmp_path / name}", *flags))
        for name in ("good", "mixed")
    )
    assert other.records == one.records
    assert len(other.failures) == 10
    for key, detail in other.failures.items():
        assert key.split("/")[1].startswith(f"{detail.partition(':')[0]}-")
    for split in other.manifest["splits"].values():
        assert split["listed"] == split["records"] + split["failures"]
