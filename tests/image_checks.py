"""Helpers of the tests of images."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

PHOTOS = sorted((Path(__file__).parent / "data/photos").glob("*/*.jpg"))
PHOTO_IDS = [photo.stem for photo in PHOTOS]


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    """Peak signal-to-noise ratio of two uint8 arrays of one shape, in dB; 99 if they are equal."""
    assert one.shape == other.shape
    error = np.mean((one.astype(np.float64) - other) ** 2)
    return 99.0 if error == 0 else float(10 * np.log10(255**2 / error))


def pixels(converted: Any) -> np.ndarray:
    """[H, W, C] uint8 pixels of a stored image of any encoding."""
    if converted.format == "raw":
        array = np.frombuffer(converted.data, np.uint8)
        return array.reshape(converted.height, converted.width, converted.channels)
    with Image.open(io.BytesIO(converted.data)) as image:
        return np.asarray(image).reshape(image.height, image.width, -1)


def upright(photo: Path) -> Image.Image:
    """A photo as a Pillow script reads it: turned, RGB."""
    with Image.open(photo) as image:
        return ImageOps.exif_transpose(image).convert("RGB")


def encoded(image: Image.Image, file_format: str, **options: object) -> bytes:
    """What Pillow writes."""
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def with_profile(jpeg: bytes, profile: bytes) -> bytes:
    """A JPEG with an ICC profile of less than 64 KB added; its pixels are not encoded again."""
    body = b"ICC_PROFILE\0\1\1" + profile
    return jpeg[:2] + b"\xff\xe2" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]


def detailed(height: int, width: int, seed: int = 0) -> Image.Image:
    """An RGB image with edges and texture at every scale down to a few pixels, like a photo's."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3))
    for step in (4, 8, 16, 64):
        coarse = rng.normal(0, step**0.5, (-(-height // step), -(-width // step), 3)).astype(np.float32)
        layers = [
            np.asarray(Image.fromarray(coarse[..., channel]).resize((width, height), Image.Resampling.BICUBIC))
            for channel in range(3)
        ]
        total += np.stack(layers, -1)
    return Image.fromarray((128 + 8 * total).clip(0, 255).astype(np.uint8))


def lossless_jpeg(pixels: np.ndarray) -> bytes:
    """A grey lossless JPEG of [H, W] uint8, each value predicted by the one to its left (ITU T.81, H)."""
    height, width = pixels.shape
    values = pixels.astype(int)
    predicted = np.empty_like(values)
    predicted[:, 1:], predicted[1:, 0], predicted[0, 0] = values[:, :-1], values[:-1, 0], 128
    bits = ""
    for difference in (values - predicted).ravel().tolist():
        size = abs(difference).bit_length()
        bits += f"{size:04b}"  # nine codes of four bits
        if size:
            bits += f"{difference if difference > 0 else difference + (1 << size) - 1:0{size}b}"
    bits += "1" * (-len(bits) % 8)
    scan = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    segments = {
        0xC3: struct.pack(">BHHB", 8, height, width, 1) + bytes([1, 0x11, 0]),
        0xC4: bytes([0, 0, 0, 0, 9, *[0] * 12, *range(9)]),
        0xDA: bytes([1, 1, 0, 1, 0, 0]),
    }
    header = b"".join(struct.pack(">BBH", 0xFF, kind, len(body) + 2) + body for kind, body in segments.items())
    return b"\xff\xd8" + header + scan + b"\xff\xd9"
