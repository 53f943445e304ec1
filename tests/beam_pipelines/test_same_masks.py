"""Folders of images and masks as Pillow and OpenCV write them, against what Pillow reads of the same files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from beam_tfrecords import open_dataset

FOLDERS = (
    ("images/{}", "masks/{}"),
    ("a/{}_photo", "b/{}_mask"),
    ("all/images/{}", "all/labels/{}"),
    ("x/{}", "x/{}_seg"),
)
# Name of an extension -> how an image is saved, without a loss.
IMAGES = {"png": {}, "bmp": {}, "tif": {"compression": "tiff_lzw"}, "webp": {"lossless": True}}


def _palette(numbers: np.ndarray, path: Path, **options: int) -> None:
    image = Image.fromarray(numbers.astype(np.uint8), "P")
    image.putpalette(np.random.default_rng(int(numbers.sum())).integers(0, 256, 768, dtype=np.uint8).tobytes())
    image.save(path, **options)


def _few(bits: int) -> Callable[[np.ndarray, Path], None]:
    return lambda numbers, path: _palette(numbers % (1 << bits), path, bits=bits)


def _bands(mode: str, **options: bool) -> Callable[[np.ndarray, Path], None]:
    """Equal channels, and an opaque one where the mode has it."""

    def save(numbers: np.ndarray, path: Path) -> None:
        Image.fromarray(numbers.astype(np.uint8)).convert(mode).save(path, **options)

    return save


def _opencv(numbers: np.ndarray, path: Path) -> None:
    assert cv2.imwrite(str(path), numbers)


def _colors(numbers: np.ndarray, path: Path) -> None:
    Image.fromarray(np.stack([numbers, numbers // 2, 255 - numbers], axis=-1).astype(np.uint8)).save(path)


# Name -> extension, the largest number, and what saves an array of numbers.
MASKS = {
    "palette": ("png", 255, _palette),
    "palette of 1 bit": ("png", 255, _few(1)),
    "palette of 2 bits": ("png", 255, _few(2)),
    "palette of 4 bits": ("png", 255, _few(4)),
    "gif": ("gif", 255, _palette),
    "bmp of a palette": ("bmp", 255, _palette),
    "tiff of a palette": ("tif", 255, _palette),
    "grey": ("png", 255, _bands("L")),
    "grey bmp": ("bmp", 255, _bands("L")),
    "grey tiff": ("tiff", 255, _bands("L", compression="tiff_adobe_deflate")),
    "black and white": ("png", 255, _bands("1")),
    "grey and opaque": ("png", 255, _bands("LA")),
    "three equal channels": ("png", 255, _bands("RGB")),
    "four channels": ("png", 255, _bands("RGBA")),
    "webp": ("webp", 255, _bands("RGB", lossless=True)),
    "OpenCV": ("png", 255, _opencv),
    "OpenCV's tiff": ("tif", 255, _opencv),
    "16 bits": ("png", 65535, _opencv),
    "16 bits, tiff": ("tif", 65535, _opencv),
    "colors": ("png", 255, _colors),
}


def read_mask(path: Path) -> np.ndarray | None:
    """[H, W], as Pillow and NumPy read it; None if channels differ."""
    numbers = np.asarray(Image.open(path))
    if numbers.ndim == 3:
        channels = numbers[..., : 1 if numbers.shape[2] == 2 else 3]
        return numbers[..., 0] if (channels == channels[..., :1]).all() else None
    return numbers.astype(np.uint16)


def write_pairs(root: Path, chance: random.Random) -> tuple[str, str]:
    """Writes a pair of each form; the patterns of the paths of images and masks."""
    patterns = chance.choice(FOLDERS)
    for number, (extension, largest, save) in enumerate(MASKS.values()):
        stem = f"{number:02d} ü"
        image, mask = (root / pattern.format(stem) for pattern in patterns)
        generator = np.random.default_rng(chance.randrange(1 << 30))
        height, width = generator.integers(8, 40, 2)
        for path in (image, mask):
            path.parent.mkdir(parents=True, exist_ok=True)
        kind = chance.choice([*IMAGES])
        pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
        exif = Image.Exif()
        turned = chance.choice([1, 1, 3, 6, 8]) if kind in ("png", "webp") else 1
        exif[0x0112] = turned
        Image.fromarray(pixels).save(f"{image}.{kind}", **IMAGES[kind], **({"exif": exif} if turned > 1 else {}))
        shown = ImageOps.exif_transpose(Image.open(f"{image}.{kind}")).size[::-1]
        numbers = generator.integers(0, chance.choice([2, 3, 21, largest]) + 1, shown)
        save(numbers.astype(np.uint16 if largest > 255 else np.uint8), Path(f"{mask}.{extension}"))
    return patterns


@pytest.mark.parametrize("seed", range(5))
def test_images_and_masks_are_those_that_pillow_reads(tmp_path, build, seed):
    image, mask = write_pairs(tmp_path / "in", random.Random(seed))
    folders = [tmp_path / "in" / pattern.rpartition("/")[0] for pattern in (image, mask)]
    ends = {f"--{name}_suffix": pattern.rpartition("{}")[2] for name, pattern in (("image", image), ("mask", mask))}
    flags = [
        f"--input={folders[0]}",
        f"--mask_root={folders[1]}",
        *(f"{flag}={end}" for flag, end in ends.items() if end),
    ]
    if folders[0] == folders[1]:
        flags.remove(f"--mask_root={folders[1]}")
    out = build(tmp_path / "out", *flags, "--layout=segmentation", "--image_encoding=png", "--mask_bit_depth=16",
                "--max_failures=0.5")  # fmt: skip
    found = {record["filename"]: record for record in open_dataset(out).records("train")}
    failed = {
        Path(failure["key"]).name: failure["reason"]
        for failure in map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    }
    for number, form in enumerate(MASKS):
        stem = f"{number:02d} ü"
        (shown,) = (tmp_path / "in").glob(f"{image.format(stem)}.*")
        (drawn,) = (tmp_path / "in").glob(f"{mask.format(stem)}.*")
        expected = read_mask(drawn)
        if expected is None:
            assert failed.pop(shown.name) == "invalid_mask", form
            continue
        record = found.pop(shown.name)
        assert np.array_equal(record["mask"][..., 0], expected), form
        pixels = ImageOps.exif_transpose(Image.open(shown)).convert("RGB")
        assert np.array_equal(record["image"], np.asarray(pixels)), form
    assert (found, failed) == ({}, {})
