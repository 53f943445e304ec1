"""Files of arrays with pixels of any value, and with more bytes than the YAML of cases writes."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import BuildError, build
from tests.each import each
from tests.pixel_files import save_cifar, save_idx
from tests.published import Published, read_published

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 9), dtype=np.uint8)
COLORS = np.random.default_rng(1).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
OPAQUE = np.concatenate([COLORS, np.full_like(COLORS[..., :1], 255)], -1)
WIDE = np.random.default_rng(2).integers(0, 65536, (6, 8, 9), dtype=np.uint16)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def publish(path: Path, **settings: Any) -> Published:
    known = {"output": str(path.parent / "out"), "layout": "image", "image_encoding": "png", "quiet": True, **settings}
    return read_published(build(input=str(path), **known).path)


def pixels_of(published: Published) -> np.ndarray:
    """The pixels of all images in the order of their keys, [N, H, W] or [N, H, W, C]."""
    records = sorted(published.records, key=lambda one: one.key)
    return np.stack([np.asarray(Image.open(io.BytesIO(one.values["image"][0]))) for one in records])


def save_array(path: Path, array: np.ndarray) -> None:
    np.save(path, array)


def save_stored(path: Path, array: np.ndarray) -> None:
    np.savez(path, x=array)


def save_compressed(path: Path, array: np.ndarray) -> None:
    np.savez_compressed(path, x=array)


def save_batch(path: Path, array: np.ndarray) -> None:
    save_cifar(path, array, LABELS)


Save = Callable[[Path, np.ndarray], None]


@each(
    "name, save, array, expected",
    [
        ("x.npy", save_array, PIXELS, PIXELS),
        ("x.npy", save_array, PIXELS[..., None], PIXELS),
        ("x.npy", save_array, OPAQUE, OPAQUE),
        ("x.npy", save_array, WIDE, WIDE),
        ("x.npy", save_array, WIDE.astype(">u2"), WIDE),
        ("x.npz", save_stored, COLORS, COLORS),
        ("x.npz", save_compressed, COLORS.transpose(0, 3, 1, 2), COLORS),
        ("train-images-idx3-ubyte", save_idx, PIXELS, PIXELS),
        ("train-images-idx3-ubyte.gz", save_idx, PIXELS, PIXELS),
        ("emnist-letters-train-images-idx3-ubyte.gz", save_idx, PIXELS.transpose(0, 2, 1), PIXELS),
        ("data_batch_1.bin", save_batch, COLORS, COLORS),
    ],
    ids=str,
)
def test_pixels_are_those_that_were_written(
    tmp_path: Path, name: str, save: Save, array: np.ndarray, expected: np.ndarray
) -> None:
    save(tmp_path / name, array)
    channels = expected.shape[3] if expected.ndim == 4 else 1
    published = publish(tmp_path / name, channels=channels, bit_depth=8 * expected.itemsize)
    np.testing.assert_array_equal(pixels_of(published), expected)


def test_images_before_a_cut_are_read(tmp_path):
    save_array(tmp_path / "x.npy", PIXELS)
    with (tmp_path / "x.npy").open("r+b") as file:
        file.truncate(128 + 4 * 72 + 1)
    published = publish(tmp_path / "x.npy", channels=1, max_failures=1)
    np.testing.assert_array_equal(pixels_of(published), PIXELS[:4])
    why = "truncated: the file is cut: it has 417 bytes, which end in image 4 of 6"
    assert published.failures == {f"{number:012d}": why for number in (4, 5)}


def test_images_before_a_cut_of_a_compressed_file_are_read(tmp_path):
    save_idx(tmp_path / "images-idx3-ubyte", PIXELS)
    whole = gzip.compress((tmp_path / "images-idx3-ubyte").read_bytes())
    (tmp_path / "c-images-idx3-ubyte.gz").write_bytes(whole[:-100])
    published = publish(tmp_path / "c-images-idx3-ubyte.gz", channels=1, max_failures=1)
    np.testing.assert_array_equal(pixels_of(published), PIXELS[:4])
    assert [why.partition(":")[0] for why in published.failures.values()] == ["corrupt"] * 2


def test_images_before_a_cut_of_a_batch_are_read(tmp_path):
    save_cifar(tmp_path / "data_batch_1.bin", np.concatenate([COLORS] * 20), [0, 1] * 60)
    whole = (tmp_path / "data_batch_1.bin").read_bytes()
    (tmp_path / "data_batch_1.bin").write_bytes(whole[:-1])
    settings = {"max_failures": 1, "allow_damaged_containers": True, "layout": "tfds"}
    published = publish(tmp_path / "data_batch_1.bin", **settings)
    assert (len(published.records), published.manifest["damaged_containers"]) == (119, 1)


def test_columns_are_read_by_their_bytes(tmp_path):
    arrays = {"x": PIXELS, "y": LABELS, "features": np.zeros((6, 50_000)), "dense": np.zeros((6, 5_000_000), bool)}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    tracemalloc.start()
    published = publish(tmp_path / "a.npz", layout="tfds")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [one.values["label"] for one in sorted(published.records, key=lambda one: one.key)] == [
        [label] for label in LABELS
    ]
    assert [one["field"] for one in published.manifest["ledger"]] == ["features"]
    assert peak < 24 << 20


@pytest.mark.nightly
def test_an_archive_that_expands_without_measure_is_rejected(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 20, 64, 64)})
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(1100):
            member.write(bytes(1 << 20))
    with pytest.raises(BuildError, match="expands to more than 100 times its size"):
        publish(tmp_path / "bomb.npz")
