"""Masks in all forms that other libraries write, against what Pillow reads of the same files."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from beam_tfrecords import ConvertSamples, ReadSamples, Sample, build
from tests.pictures import picture
from tests.published import Published, read_published
from tests.writers import save

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


def _bands(mode: str, **options: Any) -> Callable[[np.ndarray, Path], None]:
    """Equal channels, and an opaque one where the mode has it."""
    return lambda numbers, path: Image.fromarray(numbers.astype(np.uint8)).convert(mode).save(path, **options)


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
    "gray": ("png", 255, _bands("L")),
    "gray bmp": ("bmp", 255, _bands("L")),
    "gray tiff": ("tiff", 255, _bands("L", compression="tiff_adobe_deflate")),
    "black and white": ("png", 255, _bands("1")),
    "gray and opaque": ("png", 255, _bands("LA")),
    "three equal channels": ("png", 255, _bands("RGB")),
    "four channels": ("png", 255, _bands("RGBA")),
    "webp": ("webp", 255, _bands("RGB", lossless=True)),
    "OpenCV": ("png", 255, _opencv),
    "OpenCV's tiff": ("tif", 255, _opencv),
    "16 bits": ("png", 65535, _opencv),
    "16 bits, tiff": ("tif", 65535, _opencv),
    "colors": ("png", 255, _colors),
}


def read(output: Path, **settings: Any) -> Published:
    settings = {"max_failures": 1, "image_encoding": "png", "layout": "segmentation", **settings}
    return read_published(build(output=str(output), quiet=True, **settings).path)


def masks_of(published: Published) -> dict[str, np.ndarray]:
    """Key -> mask, [H, W]."""
    return {one.key: np.asarray(Image.open(io.BytesIO(one.values["mask"][0]))) for one in published.records}


def numbers_in(path: Path) -> np.ndarray | None:
    """The mask in a file, [H, W], as Pillow and NumPy read it; None if channels differ."""
    numbers = np.asarray(Image.open(path))
    if numbers.ndim == 3:
        channels = numbers[..., : 1 if numbers.shape[2] == 2 else 3]
        return numbers[..., 0] if (channels == channels[..., :1]).all() else None
    return numbers.astype(np.uint16)


@pytest.mark.parametrize("seed", range(5))
def test_images_and_masks_are_those_that_pillow_reads(tmp_path, seed):
    chance = random.Random(seed)
    patterns = chance.choice(FOLDERS)
    expected: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for number, (extension, largest, save_mask) in enumerate(MASKS.values()):
        image, mask = (tmp_path / pattern.format(f"{number:02d} ü") for pattern in patterns)
        generator = np.random.default_rng(chance.randrange(1 << 30))
        for path in (image, mask):
            path.parent.mkdir(parents=True, exist_ok=True)
        kind = chance.choice([*IMAGES])
        exif = Image.Exif()
        exif[0x0112] = turned = chance.choice([1, 1, 3, 6, 8]) if kind in ("png", "webp") else 1
        pixels = generator.integers(0, 256, (*generator.integers(8, 40, 2), 3), dtype=np.uint8)
        Image.fromarray(pixels).save(f"{image}.{kind}", **IMAGES[kind], **({"exif": exif} if turned > 1 else {}))
        upright = ImageOps.exif_transpose(Image.open(f"{image}.{kind}")).convert("RGB")
        numbers = generator.integers(0, chance.choice([2, 3, 21, largest]) + 1, upright.size[::-1])
        save_mask(numbers.astype(np.uint16 if largest > 255 else np.uint8), Path(f"{mask}.{extension}"))
        expected[f"{image.name}.{kind}"] = np.asarray(upright), numbers_in(Path(f"{mask}.{extension}"))
    folders = [str(tmp_path / pattern.rpartition("/")[0]) for pattern in patterns]
    ends = {f"{name}_suffix": one.rpartition("{}")[2] for name, one in zip(("image", "mask"), patterns, strict=True)}
    settings = {"input": folders[0], "mask_root": folders[1], **{name: end for name, end in ends.items() if end}}
    if folders[0] == folders[1]:
        del settings["mask_root"]
    published = read(tmp_path / "out", **settings, mask_bit_depth=16)
    colors = {key for key, (_, mask) in expected.items() if mask is None}
    assert {key: why.partition(":")[0] for key, why in published.failures.items()} == dict.fromkeys(
        colors, "invalid_mask"
    )
    masks = masks_of(published)
    assert masks.keys() == expected.keys() - colors
    for record in published.records:
        pixels, numbers = expected[record.key]
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(record.values["image"][0]))), pixels)
        np.testing.assert_array_equal(masks[record.key], numbers)


def _in_mode(places: np.ndarray, colors: np.ndarray, mode: str) -> Image.Image:
    if mode != "P":
        return Image.fromarray(colors[places]).convert(mode)
    image = Image.fromarray(places.astype(np.uint8))
    image.putpalette(colors.tobytes())
    return image


@pytest.mark.parametrize("seed", range(4))
def test_colors_and_values_become_numbers_as_pixel_by_pixel(tmp_path, seed):
    """In the size of the mask and in others, of which each pixel has the number of the nearest one."""
    chance, generator = random.Random(seed), np.random.default_rng(seed)
    count = chance.choice([2, 3, 40, 255])
    colors = np.unique(generator.integers(0, 256, (count, 3), dtype=np.uint8), axis=0)
    generator.shuffle(colors)
    numbers = np.arange(len(colors))
    table: Any = {f"class {number}": color.tolist() for number, color in enumerate(colors)}
    if seed % 2:
        table = {**dict([*table.items()][:-1]), "void": colors[-1].tolist()}
        numbers[-1] = 255
    values = {int(number): int(generator.integers(0, 256)) for number in generator.choice(256, 9, replace=False)}
    places = {}
    for number, mode in enumerate(("RGB", "RGBA", "P", "RGB", "P")):
        height, width = generator.integers(1, 40, 2)
        places[f"{number}.png"] = generator.integers(0, len(colors), (height, width))
        save(tmp_path / f"images/{number}.png", picture(f"red {width}x{height}"))
        for folder, image in (
            ("colors", _in_mode(places[f"{number}.png"], colors, mode)),
            ("values", Image.fromarray(np.array([*values], np.uint8)[places[f"{number}.png"] % 9])),
        ):
            (tmp_path / folder).mkdir(exist_ok=True)
            image.save(tmp_path / f"{folder}/{number}.png")
    for size in (None, (20, 14)):
        resized = {"image_size": size, "resize_mode": "exact"} if size else {}
        for folder, settings in (("colors", {"mask_colors": table}), ("values", {"mask_values": values})):
            masks = {"input": f"{tmp_path}/images", "mask_root": f"{tmp_path}/{folder}", **settings}
            found = masks_of(read(tmp_path / f"out_{folder}_{bool(size)}", **masks, **resized))
            assert found.keys() == places.keys()
            for name, mask in found.items():
                old, new = places[name].shape, size or places[name].shape
                nearest = np.ix_(*((2 * np.arange(n) + 1) * o // (2 * n) for o, n in zip(old, new, strict=True)))
                of_values = np.array([*values.values()])[places[name] % 9]
                whole = numbers[places[name]] if folder == "colors" else of_values
                np.testing.assert_array_equal(mask, whole[nearest])


def test_pixels_without_a_color_reject_their_mask(tmp_path):
    transparent = Image.new("RGBA", (4, 4), (230, 30, 30, 255))
    transparent.putpixel((1, 1), (230, 30, 30, 0))
    bad = {"a.png": transparent, "b.tif": Image.new("CMYK", (4, 4)), "c.png": Image.new("RGB", (4, 4))}
    bad["c.png"].putdata([(number, 0, 0) for number in range(16)])
    (tmp_path / "masks").mkdir()
    for name, image in bad.items():
        image.save(tmp_path / f"masks/{name}")
    for name in "abcd":
        save(tmp_path / f"images/{name}.png", picture("red 4x4"))
    save(tmp_path / "masks/d.png", picture("red 4x4"))
    folders = {"input": f"{tmp_path}/images", "mask_root": f"{tmp_path}/masks"}
    colors = {"road": [230, 30, 30], "sky": [0, 0, 0], "snow": "#ffffff"}
    found = read(tmp_path / "out", **folders, mask_colors=colors).failures
    assert found == {
        "a.png": "invalid_mask: the mask has transparent pixels, whose class is not known; "
        "save it without transparency",
        "b.png": "invalid_mask: the mask has no colors of 8 bits (mode CMYK), for `mask_colors` to name",
        "c.png": "invalid_mask: color 1,0,0 in 1 and 2,0,0 in 1 and 3,0,0 in 1 and 12 others of 16 pixels; "
        "`mask_colors` has none like it",
    }


# Functions and transforms of the user.


@pytest.fixture
def pairs(tmp_path) -> Mapping[str, Any]:
    """Four images, their masks of colors and of classes; the settings of the former."""
    for name in "abcd":
        save(tmp_path / f"images/{name}.png", picture("red 8x6"))
        save(tmp_path / f"masks/{name}.png", picture("mask 8x6 green=0,0,4,3 blue=4,3,8,6"))
        for number, box in enumerate(("0,0,4,3", "4,3,8,6")):
            save(tmp_path / f"classes/{number}/{name}.png", picture(f"mask 8x6 1={box}"))
    colors = {"sky": [230, 30, 30], "road": [30, 160, 30], "void": [30, 30, 230]}
    return {"input": f"{tmp_path}/images", "mask_root": f"{tmp_path}/masks", "mask_colors": colors}


def classes_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the masks of classes."""
    root = f"{settings['mask_root'].removesuffix('masks')}classes"
    return {**settings, "mask_root": root, "mask_colors": None, "mask_classes": {"x": "0/", "y": "1/"}}


def turned_twice(sample: Sample) -> Sample:
    """Replaces the mask of some samples by an equal one."""
    assert [*np.unique(sample.mask)] in ([0, 1, 255], [0, 1, 2])
    return sample.replace(mask=sample.mask[::-1][::-1].copy()) if sample.key > "b" else sample


@pytest.mark.parametrize("change", [dict, classes_of])
def test_a_function_gets_numbers_and_not_colors(tmp_path, pairs, change):
    plain, mapped = (
        read(tmp_path / name, **change(pairs), **more)
        for name, more in (("plain", {}), ("mapped", {"map": turned_twice}))
    )
    assert [*map(mapped.describe, mapped.records)] == [*map(plain.describe, plain.records)]


@pytest.mark.parametrize("change", [dict, classes_of])
def test_transforms_of_a_pipeline_get_numbers_and_not_colors(pairs, change):
    settings = {name: value for name, value in change(pairs).items() if value}
    colors = {name: settings[name] for name in ("mask_colors",) if name in settings}
    with beam.Pipeline() as root:
        samples = root | ReadSamples(layout="segmentation", **settings) | beam.Map(turned_twice)
        count = samples | ConvertSamples(layout="segmentation", **colors) | beam.combiners.Count.Globally()
        _ = count | "check" >> beam.Map(_is_four)


def _is_four(count: int) -> None:
    assert count == 4


def yielded(root: str) -> Iterator[Sample]:
    """Samples whose masks are files, and one whose mask is an array."""
    for name in "abcd":
        mask = f"{root}/masks/{name}.png" if name < "d" else np.zeros((6, 8), np.uint8)
        yield Sample(f"{name}.png", image=f"{root}/images/{name}.png", mask=mask)


def test_files_of_a_function_have_colors_and_its_arrays_are_refused(tmp_path, pairs):
    given = {"input": yielded, "parts": [str(tmp_path)], "mask_colors": pairs["mask_colors"]}
    published = read(tmp_path / "out", **given)
    assert {published.describe(one) for one in published.records} == {"red 8x6; mask 1=0,0,4,3 255=4,3,8,6"}
    assert len(published.records) == 3
    assert "`mask_colors` has none like it" in published.failures["d.png"]
