"""The inputs of `growth.py`: each of any size, and written in pieces."""

from __future__ import annotations

import io
import itertools
import math
import os
import pathlib
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from PIL import Image

_ROWS = 10_000  # of a row group
_LINKS = 10_000  # to one file
_CLASSES = 10


def encode(pixels: np.ndarray, form: str = "png") -> bytes:
    """An image file of pixels, [H, W] or [H, W, 3] uint8."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, form)
    return buffer.getvalue()


def tiny_images(count: int, pictures: Iterable[bytes] = ()) -> Iterator[bytes]:
    """PNGs that all have other bytes, with the pixels of some pictures in turn."""
    pictures = list(pictures) or [encode(np.zeros((4, 4), np.uint8))]
    return (_add_comment(pictures[number % len(pictures)], number) for number in range(count))


def _add_comment(png: bytes, number: int) -> bytes:
    text = b"tEXtnumber\0" + str(number).encode()
    return png[:33] + struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text)) + png[33:]


def noise_images(count: int) -> Iterator[bytes]:
    """PNGs of 32 x 32 whose pixels differ."""
    generator = np.random.default_rng(0)
    return (encode(generator.integers(0, 256, (32, 32, 3), np.uint8)) for _ in range(count))


def camera_frames(distinct: int) -> list[bytes]:
    """PNGs of 32 x 32 with so many perceptual hashes: frequencies near the median change places."""
    free = next(bits for bits in range(64) if math.comb(bits, bits // 2) >= distinct)
    generator = np.random.default_rng(0)
    places = generator.permutation(64)
    cosines = np.cos(np.pi / 32 * np.outer(np.arange(8), np.arange(32) + 0.5))
    frames: dict[tuple[int, ...], bytes] = {}
    while len(frames) < distinct:
        frequencies = np.empty(64)
        frequencies[places[free:]] = np.where(np.arange(64 - free) < 32 - free // 2, 3.0, -3.0)
        frequencies[places[:free]] = -1.0
        above = generator.choice(free, free // 2, replace=False)
        frequencies[places[above]] = 1.0
        pixels = 128 + cosines.T @ frequencies.reshape(8, 8) @ cosines
        frames[tuple(sorted(above))] = encode(np.clip(pixels, 0, 255).round().astype(np.uint8))
    return list(frames.values())


def link_files(folder: pathlib.Path, count: int) -> pathlib.Path:
    """Two class folders of hard links to tiny images."""
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
    images = tiny_images(-(-count // _LINKS))
    for number in range(count):
        path = folder / ("cat", "dog")[number % 2] / f"{number:07d}.png"
        if number % _LINKS == 0:
            path.write_bytes(next(images))
            target = path
        else:
            os.link(target, path)
    return folder


def change_files(folder: pathlib.Path, *, every: int) -> None:
    """Gives some of the files other images of their own."""
    paths = sorted(folder.rglob("*.png"))[::every]
    for path, image in zip(paths, noise_images(len(paths)), strict=True):
        path.unlink()
        path.write_bytes(image)


def write_zip(path: pathlib.Path, images: Iterator[bytes]) -> pathlib.Path:
    """A zip file of images in class folders."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, image in enumerate(images):
            archive.writestr(f"class_{number % _CLASSES}/{number:07d}.png", image)
    return path


def write_images(path: pathlib.Path, images: Iterator[bytes]) -> pathlib.Path:
    """A Parquet file of images and labels."""
    schema = pa.schema([("image", pa.binary()), ("label", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(itertools.islice(images, _ROWS)):
            labels = [f"class_{number % _CLASSES}" for number in range(len(batch))]
            writer.write_table(pa.table([batch, labels], schema=schema))
    return path


def keyed_rows(count: int, *, classes: int = 7) -> Iterator[pa.Table]:
    """Keys, labels and numbers."""
    for start in range(0, count, _ROWS):
        numbers = np.arange(start, min(count, start + _ROWS))
        keys = [f"row-{number:09d}" for number in numbers]
        yield pa.table({"id": keys, "label": (numbers % classes).astype(str), "width": numbers % 1000})


def wide_rows(count: int, *, columns: int) -> Iterator[pa.Table]:
    """Columns of numbers."""
    values = np.random.default_rng(0).random((100, columns), np.float32)
    for start in range(0, count, 100):
        rows = values[: count - start]
        yield pa.table(list(rows.T), names=[f"column_{number}" for number in range(columns)])


def caption_rows(count: int, *, characters: int) -> Iterator[pa.Table]:
    """Images with a long text each."""
    letters = np.random.default_rng(0).integers(97, 123, characters, np.uint8).tobytes().decode()
    for number, image in enumerate(tiny_images(count)):
        yield pa.table({"image": [image], "captions": [[f"{number} {letters}"]]})


def write_rows(path: pathlib.Path, tables: Iterator[pa.Table]) -> pathlib.Path:
    """A file of tables: `.csv` or `.parquet`."""
    first = next(tables)
    tables = itertools.chain([first], tables)
    open_writer = pq.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter
    with open_writer(path, first.schema) as writer:
        for rows in tables:
            writer.write_table(rows)
    return path


def large_pixels(megapixels: int) -> np.ndarray:
    """A photo-like picture, [H, W, 3] uint8, twice as wide as high."""
    height = round(math.sqrt(megapixels * 1e6 / 2))
    across = np.arange(2 * height) * 255 // (2 * height)
    down = np.arange(height)[:, None] * 255 // height
    pixels = np.empty((height, 2 * height, 3), np.uint8)
    for channel, values in enumerate((across, down, across ^ down)):
        pixels[..., channel] = values
    return pixels
