"""Makes any number of distinct photo-like JPEG files from the sample photos.

    python benchmarks/make_photos.py --output=photos --count=5000
    python benchmarks/make_photos.py --output=large --count=200 --size=4000x3000

They resemble ImageNet's files: the constants are fitted to the 1,000 photos of EliSchwartz/imagenet-sample-images. Of
1,000 each, made photos have 1.00 of the bytes of real ones, 1.03 of the pixels and 1.04 of the sharpness, and take 1.01
of Pillow's time. Photos of a given --size are not fitted. Photo i depends on the seed and i alone.

* Forms: `FORMS` lists sizes with quality and chroma subsampling. A quarter are upright, 0.1% are stored rotated.
* Detail: each photo is a random crop of a sample photo with a random contrast, sharpened, with noise.
* Profiles: `KINDS` lists their shares. The pixels are converted to the colors of the profile.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import io
import multiprocessing
import os
import pathlib
import random
import shutil
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from figures import RESULTS
from PIL import ExifTags, Image, ImageFilter, ImageOps, ImageStat

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from tests.image_writers import P3_COLORANTS, SRGB_COLORANTS, icc_profile, to_profile

_Choice = TypeVar("_Choice")
_HERE = pathlib.Path(__file__).resolve().parent
_SAMPLES = _HERE.parent / "tests" / "data" / "photos"
# (width, height) in pixels, quality, and chroma subsampling -> share.
FORMS = {
    ((500, 375), 96, "4:4:4"): 0.38,
    ((500, 333), 96, "4:4:4"): 0.24,
    ((500, 450), 96, "4:4:4"): 0.05,
    ((160, 120), 90, "4:2:0"): 0.03,
    ((240, 180), 92, "4:2:0"): 0.03,
    ((320, 240), 90, "4:4:4"): 0.04,
    ((400, 300), 75, "4:2:0"): 0.05,
    ((500, 333), 92, "4:4:4"): 0.029,
    ((500, 375), 86, "4:4:4"): 0.05,
    ((640, 480), 85, "4:2:0"): 0.055,
    ((800, 600), 75, "4:2:0"): 0.03,
    ((1024, 768), 92, "4:2:0"): 0.01,
    ((1600, 1200), 75, "4:2:0"): 0.006,
}
# Kind of file -> its share; the rest is RGB without a profile. A display's profile differs from file to file.
KINDS = {"gray": 0.023, "srgb": 0.197, "wide": 0.07, "display": 0.02}
# Value of --size: the sizes of `FORMS`.
MIXED = "mixed"
_GOLDEN_RATIO = (5**0.5 - 1) / 2
_UPRIGHT, _ROTATED = 0.25, 0.001
# EXIF orientation -> the rotation that a reader who applies the tag undoes.
_ROTATIONS = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
# Ranges of the mean and the standard deviation of the gray levels, and the largest gain for them.
_BRIGHTNESS, _CONTRAST, _LARGEST_GAIN = (70, 165), (38, 80), 2.0
# Percent of an unsharp mask, and standard deviation of the noise in levels: medians, and the standard deviations of
# their logarithms. Each channel has a third of the noise for itself.
_SHARPENING, _SHARPENING_SPREAD = 220, 0.35
_NOISE, _NOISE_SPREAD, _COLOR_NOISE = 1.8, 1.0, 0.3
# Noise is added to this many rows at a time, so that 24 megapixels need no gigabytes.
_BAND_ROWS = 256
# Marker and length of a segment of JPEG.
_COMMENT = struct.Struct(">HH")


def photo_options(description: str, *, count: int = 8000, rounds: int = 5) -> argparse.ArgumentParser:
    """Returns a parser of the options that scripts about photos share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default=MIXED, help="of the photos, width x height; mixed: those of ImageNet")
    parser.add_argument("--photos", type=pathlib.Path, help="folder of real photos to take instead of made ones")
    parser.add_argument("--count", type=int, default=count, help="of photos")
    parser.add_argument("--rounds", type=int, default=rounds, help="timed rounds")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    return parser


def photos_title(arguments: argparse.Namespace) -> str:
    """Names the photos of a benchmark, for results: a size, `mixed sizes`, or a folder with its number of files."""
    if arguments.photos is not None:
        return f"{arguments.photos.absolute().name} ({len(_list_photos(arguments.photos)):,} files)"
    return "mixed sizes" if arguments.size == MIXED else str(arguments.size)


def prepare_photos(arguments: argparse.Namespace) -> pathlib.Path:
    """Returns the folder with the photos of `photo_options`, and makes the missing ones."""
    code = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:8]
    made_of = f"{arguments.size}-{code}" if arguments.photos is None else "real"
    folder = _HERE / ".photos" / f"{made_of}x{arguments.count}"
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    if arguments.photos is not None:
        shutil.rmtree(folder, ignore_errors=True)
        _link_photos(_list_photos(arguments.photos), unfinished, count=arguments.count)
    elif not folder.exists():
        print(f"making {arguments.count} photos", file=sys.stderr)
        write_photos(unfinished, count=arguments.count, size=parse_size(arguments.size))
    if unfinished.exists():
        unfinished.rename(folder)
    return folder


def _list_photos(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


def _link_photos(photos: Sequence[pathlib.Path], folder: pathlib.Path, *, count: int, classes: int = 10) -> None:
    """Links photos into class folders: a random choice if there are more.

    If there are fewer, writes copies with a comment, because equal files are listed as duplicates.
    """
    if not photos:
        raise ValueError("--photos: the folder has no JPEG file")
    chosen = random.Random(0).sample(photos, len(photos))
    for index in range(count):
        photo = chosen[index % len(chosen)]
        link = folder / f"class_{index % classes:02d}" / f"{index:07d}_{photo.stem}.jpg"
        link.parent.mkdir(parents=True, exist_ok=True)
        if index >= len(chosen):
            data, comment = photo.read_bytes(), f"{index:08d}".encode()
            link.write_bytes(data[:2] + _COMMENT.pack(0xFFFE, 2 + len(comment)) + comment + data[2:])
            continue
        try:
            link.hardlink_to(photo)
        except OSError:
            shutil.copyfile(photo, link)


@functools.cache
def _load_samples() -> tuple[Image.Image, ...]:
    """Returns all sample photos, upright, as RGB."""
    return tuple(ImageOps.exif_transpose(Image.open(path)).convert("RGB") for path in sorted(_SAMPLES.glob("*/*.jpg")))


def make_photo(index: int, *, size: tuple[int, int] | None, seed: int) -> bytes:
    """Returns a JPEG file.

    Args:
      index: number of the photo.
      size: (width, height) in pixels instead of the form's; an upright photo swaps them.
      seed: of the whole set.
    """
    generator = np.random.default_rng([seed, index])
    form_size, quality, chroma = _draw_share(FORMS, generator.random())
    width, height = size or form_size
    picture = _draw_picture(generator, (height, width) if generator.random() < _UPRIGHT else (width, height))
    # The golden ratio spreads each kind evenly over the photos.
    position = (index * _GOLDEN_RATIO + np.random.default_rng(seed).random()) % 1.0
    photo, profile = _store_colors(generator, picture, _draw_share({**KINDS, "plain": 1.0}, position))
    exif = Image.Exif()
    if generator.random() < _ROTATED:
        orientation = int(generator.choice(list(_ROTATIONS)))
        photo = photo.transpose(_ROTATIONS[orientation])
        exif[ExifTags.Base.Orientation] = orientation
    file = io.BytesIO()
    tags = exif.tobytes() if exif else b""
    photo.save(file, "JPEG", quality=quality, subsampling=chroma, icc_profile=profile, exif=tags)
    return file.getvalue()


def _draw_share(shares: Mapping[_Choice, float], position: float) -> _Choice:
    """Returns the choice at a position from 0 to 1 along the shares; the last one beyond them."""
    for choice, share in shares.items():
        if position < share:
            return choice
        position -= share
    return choice


def _draw_picture(generator: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """Returns a random crop of a sample photo, of that (width, height), as RGB."""
    samples = _load_samples()
    sample = samples[generator.integers(len(samples))]
    width, height = size
    scale = min(sample.width / width, sample.height / height) * generator.uniform(0.6, 1.0)
    left = generator.uniform(0, sample.width - width * scale)
    top = generator.uniform(0, sample.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    picture = sample.resize(size, Image.Resampling.BICUBIC, box=box)
    if generator.random() < 0.5:
        picture = ImageOps.mirror(picture)
    gray = ImageStat.Stat(picture.convert("L"))
    gain = min(generator.uniform(*_CONTRAST) / max(gray.stddev[0], 1), _LARGEST_GAIN)
    gains = gain * generator.uniform(0.95, 1.05, 3)
    offsets = generator.uniform(*_BRIGHTNESS) + generator.uniform(-12, 12, 3)
    levels = np.clip((np.arange(256) - gray.mean[0]) * gains[:, None] + offsets[:, None], 0, 255)
    detail = generator.lognormal(0, _SHARPENING_SPREAD)
    picture = picture.point(levels.astype(int).ravel().tolist())
    pixels = np.array(picture.filter(ImageFilter.UnsharpMask(1, round(_SHARPENING * detail), 0)))  # [H, W, 3] uint8
    deviation = detail * _NOISE * generator.lognormal(0, _NOISE_SPREAD)
    for start in range(0, height, _BAND_ROWS):
        band = pixels[start : start + _BAND_ROWS]
        noise = generator.standard_normal((*band.shape[:2], 1), np.float32)
        noise = noise + _COLOR_NOISE * generator.standard_normal(band.shape, np.float32)
        band[:] = np.clip(band + deviation * noise, 0, 255)
    return Image.fromarray(pixels)


def _store_colors(generator: np.random.Generator, photo: Image.Image, kind: str) -> tuple[Image.Image, bytes | None]:
    """Returns an sRGB picture in the mode and the colors of a kind of file, and its profile."""
    if kind == "gray":
        return photo.convert("L"), None
    if kind == "plain":
        return photo, None
    colorants, gamma = P3_COLORANTS if kind == "wide" else SRGB_COLORANTS, 2.2
    if kind == "display":
        colorants, gamma = colorants + generator.normal(0, 0.01, colorants.shape), generator.uniform(1.8, 2.4)
    if kind != "srgb":
        photo = Image.fromarray(to_profile(np.array(photo), colorants, gamma))
    return photo, icc_profile(colorants, gamma)


def _write_photo(index: int, *, output: pathlib.Path, classes: int, size: tuple[int, int] | None, seed: int) -> None:
    photo = make_photo(index, size=size, seed=seed)
    (output / f"class_{index % classes:02d}" / f"photo_{index:07d}.jpg").write_bytes(photo)


def write_photos(
    output: pathlib.Path, *, count: int, size: tuple[int, int] | None = None, seed: int = 0, classes: int = 10
) -> None:
    """Writes photos into a folder per class, with one process per core; see `make_photo`."""
    for label in range(classes):
        (output / f"class_{label:02d}").mkdir(parents=True, exist_ok=True)
    write = functools.partial(_write_photo, output=output, classes=classes, size=size, seed=seed)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for _ in pool.imap_unordered(write, range(count), chunksize=8):
            pass


def parse_size(text: str) -> tuple[int, int] | None:
    """Reads `500x375` as (width, height); `mixed` has no size of its own."""
    if text == MIXED:
        return None
    width, height = map(int, text.split("x"))
    return width, height


def main() -> None:
    """Writes the photos that the command line asks for."""
    parser = argparse.ArgumentParser(description="Makes photo-like JPEG files.")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--size", type=parse_size, default=MIXED, help="width x height; mixed: the sizes of FORMS")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write_photos(arguments.output, count=arguments.count, size=arguments.size, seed=arguments.seed)


if __name__ == "__main__":
    main()
