"""`convert` of records whose images are numbers: what it offers was tried, and gives the right pixels."""

from __future__ import annotations

import numpy as np
import pytest

from beam_tfrecords import open_dataset
from tests.each import each
from tests.record_pixels import write_records

COLORS = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
NOISE = np.random.default_rng(1).random((6, 8, 8, 3)).astype(np.float32)
SIZE = {"height": 8, "width": 8, "depth": 3}
FLAGS = ("--image_encoding=png", "--num_shards=1", "--name=numbers")


def pixels_in(out, name: str = "image") -> list[np.ndarray]:
    """The images of a dataset, by their labels."""
    records = sorted(open_dataset(out).records("train"), key=lambda record: record["label"])
    return [np.asarray(record[name]) for record in records]


CASES = {
    "bytes": ([{"image": one.tobytes()} for one in COLORS], "8x8x3:uint8", COLORS),
    "floats": (
        [{"image": one.tobytes(), **SIZE} for one in NOISE],
        "float32:0..1",
        np.floor(NOISE.astype(np.float64) * 255 + 0.5),
    ),
}


@each("name", [*CASES])
def test_the_setting_that_a_refusal_asks_for_gives_the_right_pixels(tmp_path, build, convert, name):
    records, pixels, expected = CASES[name]
    path = write_records(tmp_path / "a.tfrecord", [{**one, "label": n} for n, one in enumerate(records)])
    convert(f"--output={tmp_path / 'out'}", f"--input={path}", *FLAGS).refused("missing_pixel_size", "input", "pixels")
    channels = f"--channels={expected.shape[-1]}"
    out = build(tmp_path / "out", f"--input={path}", f"--pixels={pixels}", channels, *FLAGS)
    assert np.array_equal(np.stack(pixels_in(out)), expected)


def test_the_layout_array_stores_the_numbers(tmp_path, build, verify):
    records = [{"image": one * 7 - 3, "label": number} for number, one in enumerate(NOISE)]
    path = write_records(tmp_path / "a.tfrecord", records)
    flags = (f"--input={path}", "--layout=array,label", "--num_shards=1", "--name=numbers", "--pixels=8x8x3:float32")
    out = build(tmp_path / "out", *flags)
    assert np.array_equal(np.stack(pixels_in(out)), NOISE * 7 - 3)
    assert verify(out).code == 0


def test_the_order_of_three_axes_is_asked_if_it_is_unknown(tmp_path, build, convert):
    arrays = np.random.default_rng(3).integers(0, 60000, (6, 10, 12, 13))
    records = [{"image": one, "label": number, "shape": [10, 12, 13]} for number, one in enumerate(arrays)]
    path = write_records(tmp_path / "a.tfrecord", records)
    flags = (f"--input={path}", "--layout=array,label", "--name=numbers", "--pixels=uint16")
    refusal = convert(f"--output={tmp_path / 'out'}", *flags).refused("unclear_array", "array_axes", "input")
    assert [one.settings for one in refusal.suggestions] == [{"array_axes": "CHW"}, {"array_axes": "HWC"}]
    for axes, order in (("HWC", (0, 1, 2, 3)), ("CHW", (0, 2, 3, 1))):
        out = build(tmp_path / axes, *flags, f"--array_axes={axes}")
        assert np.array_equal(np.stack(pixels_in(out)), arrays.transpose(order))


def test_a_range_for_arrays_is_refused(tmp_path, convert):
    records = [{"image": one, "label": 0, **SIZE} for one in NOISE]
    path = write_records(tmp_path / "a.tfrecord", records)
    ran = convert(f"--output={tmp_path / 'out'}", f"--input={path}", "--layout=array", "--pixels=float32:0..1")
    ran.refused("setting_not_applicable", "pixels", says=["leave the range out"])


@each("word", ["", "28x28", "28x28x3x1:uint8", "uint9", "0..1", "uint8:0..0", "uint8:0..", "0..1:float32", "0x4:uint8"])
def test_a_form_that_cannot_be_read_is_refused(tmp_path, convert, word):
    ran = convert(f"--output={tmp_path / 'out'}", f"--input={tmp_path}", f"--pixels={word}")
    ran.refused("invalid_value", "pixels")


@pytest.mark.parametrize("bit_depth", [8, 16])
def test_masks_of_numbers_are_stored_as_they_are(tmp_path, build, bit_depth):
    masks = np.random.default_rng(2).integers(0, 256 if bit_depth == 8 else 5000, (6, 8, 8))
    masks[:, 0, 0] = 255 if bit_depth == 8 else 4999
    records = [
        {"image_raw": image.tobytes(), "mask": mask, "number": number, **SIZE}
        for number, (image, mask) in enumerate(zip(COLORS, masks, strict=True))
    ]
    path = write_records(tmp_path / "a.tfrecord", records)
    layout = "--layout=segmentation,number:int64"
    out = build(tmp_path / "out", f"--input={path}", layout, f"--mask_bit_depth={bit_depth}", *FLAGS)
    found = sorted(open_dataset(out).records("train"), key=lambda record: record["number"])
    assert np.array_equal(np.stack([one["image"] for one in found]), COLORS)
    assert np.array_equal(np.stack([np.squeeze(one["mask"]) for one in found]), masks)
