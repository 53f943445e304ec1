"""Makes any number of distinct photo-like JPEG files from the sample photos.

    python benchmarks/make_photos.py --output=photos --count=5000
    python benchmarks/make_photos.py --output=large --count=200 --size=4000x3000,6000x4000

They resemble ImageNet's files: the constants are fitted to the 1,000 photos of EliSchwartz/imagenet-sample-images, a
photo of each class. `compare_photos.py` measures both.

* Forms: `FORMS` lists sizes with quality and chroma subsampling. Two thirds of ImageNet's photos are 500 pixels long,
  of quality 96, and not subsampled; the rest are of all sizes and mostly subsampled. A quarter are upright.
* Detail: each photo is a random crop of a sample photo, perhaps mirrored, enlarged, brought to a random contrast, and
  sharpened. Noise of a random strength brings the bytes per pixel to ImageNet's.
* Profiles: `KINDS` lists their shares. The pixels are converted to the profile's colours, so that a reader who
  applies the profile sees the sRGB picture. A display's profile differs from file to file.
* Rotated: 0.1% are stored turned, with the EXIF orientation that undoes it.

`compare_photos.py` on 1,000 of each: made photos have 1.00 of the bytes of real ones, 1.03 of the pixels, 1.05 of the
bytes per pixel at equal quality, and 1.04 of the sharpness (quartiles of 616, 1262 and 2505 where real ones have 621,
1327 and 2662). Processor time of Pillow is 1.01 of that of real ones, with `draft()` 1.01, of our codec 0.99.

No file of the 1,000 is CMYK or progressive, so none is here. Photos of a given --size are not fitted: 12 megapixels
take some 2 MB. Photo i depends on the seed and i alone: a larger count leaves the earlier photos as they are.
"""

from __future__ import annotations

import argparse
import functools
import io
import multiprocessing
import os
import pathlib
import time
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from icc_profiles import ADOBE_RGB, APPLE_RGB, SRGB, RgbSpace, build_rgb_profile
from PIL import ExifTags, Image, ImageCms, ImageFilter, ImageOps, ImageStat, JpegImagePlugin

_Choice = TypeVar("_Choice")
_SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "photos"
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
# Kind of file -> its share; the rest is RGB without a profile.
KINDS = {"grey": 0.023, "srgb": 0.197, "apple_rgb": 0.044, "adobe_rgb": 0.026, "display": 0.02}
_SPACES = {"srgb": SRGB, "adobe_rgb": ADOBE_RGB, "apple_rgb": APPLE_RGB}
# Value of --size: the sizes of `FORMS`.
MIXED = "mixed"
_GOLDEN_RATIO = (5**0.5 - 1) / 2
_UPRIGHT, _ROTATED = 0.25, 0.001
# EXIF orientation -> what is done to the picture so that a reader who applies the tag undoes it. Cameras
# write no mirrored ones.
_UNDONE_BY_READER = {
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}

# Mean and standard deviation of the grey levels, smallest and largest, and the most that the levels are spread for it.
_BRIGHTNESS, _CONTRAST, _LARGEST_GAIN = (70, 165), (38, 80), 2.0
# Percent of an unsharp mask, and standard deviation of the noise in levels: their medians, and the standard deviations
# of their logarithms. What sharpens a photo sharpens its noise. Each channel has a third of it for itself.
_SHARPENING, _SHARPENING_SPREAD = 220, 0.35
_NOISE, _NOISE_SPREAD = 1.8, 1.0
_COLOR_NOISE = 0.3
# Noise is added to this many rows at a time, so that 24 megapixels need no gigabytes.
_BAND_ROWS = 256


@functools.cache
def load_samples() -> tuple[Image.Image, ...]:
    """All sample photos, upright, as RGB."""
    samples = []
    for path in sorted(_SAMPLES.glob("*/*.jpg")):
        with Image.open(path) as image:
            samples.append(ImageOps.exif_transpose(image).convert("RGB"))
    return tuple(samples)


def make_photo(index: int, *, sizes: tuple[tuple[int, int], ...], seed: int) -> bytes:
    """Makes one photo.

    Args:
      index: number of the photo.
      sizes: (width, height) in pixels, of which one is drawn in place of the form's; an upright photo swaps them.
      seed: of the whole set.

    Returns:
      The JPEG file.
    """
    random = np.random.default_rng([seed, index])
    size, quality, chroma = _draw_share(FORMS, random.random())
    if sizes:
        size = sizes[random.integers(len(sizes))]
    picture = _draw_picture(random, size[::-1] if random.random() < _UPRIGHT else size)
    photo, profile = _store_colors(random, picture, _kind_of(index, seed))
    exif = Image.Exif()
    if random.random() < _ROTATED:
        orientation = int(random.choice(list(_UNDONE_BY_READER)))
        photo = photo.transpose(_UNDONE_BY_READER[orientation])
        exif[ExifTags.Base.Orientation] = orientation
    file = io.BytesIO()
    photo.save(
        file,
        "JPEG",
        quality=quality,
        subsampling=chroma,
        icc_profile=profile,
        exif=exif.tobytes() if exif else b"",
    )
    return file.getvalue()


def _draw_share(shares: Mapping[_Choice, float], position: float) -> _Choice:
    """The choice at a position from 0 to 1 along the shares; the last one beyond them."""
    for choice, share in shares.items():
        if position < share:
            return choice
        position -= share
    return choice


def _draw_picture(random: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """A random crop of a sample photo, of that (width, height), as RGB."""
    samples = load_samples()
    sample = samples[random.integers(len(samples))]
    width, height = size
    largest = min(sample.width / width, sample.height / height)
    scale = largest * random.uniform(0.6, 1.0)
    left = random.uniform(0, sample.width - width * scale)
    top = random.uniform(0, sample.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    if random.random() < 0.5:
        sample, box = ImageOps.mirror(sample), (sample.width - box[2], top, sample.width - left, box[3])
    picture = sample.resize(size, Image.Resampling.BICUBIC, box=box)
    grey = ImageStat.Stat(picture.convert("L"))
    gain = min(random.uniform(*_CONTRAST) / max(grey.stddev[0], 1), _LARGEST_GAIN)
    gains = gain * random.uniform(0.95, 1.05, 3)
    offsets = random.uniform(*_BRIGHTNESS) + random.uniform(-12, 12, 3)
    levels = np.clip((np.arange(256) - grey.mean[0]) * gains[:, None] + offsets[:, None], 0, 255)
    detail = random.lognormal(0, _SHARPENING_SPREAD)
    picture = picture.point(levels.astype(int).ravel().tolist())
    picture = picture.filter(ImageFilter.UnsharpMask(1, round(_SHARPENING * detail), 0))
    return _add_noise(random, picture, detail * _NOISE * random.lognormal(0, _NOISE_SPREAD))


def _add_noise(random: np.random.Generator, picture: Image.Image, deviation: float) -> Image.Image:
    """An RGB picture with noise of a standard deviation in levels."""
    pixels = np.array(picture)  # [H, W, 3] uint8
    for top in range(0, len(pixels), _BAND_ROWS):
        band = pixels[top : top + _BAND_ROWS]
        noise = random.standard_normal((*band.shape[:2], 1), np.float32)
        noise = noise + _COLOR_NOISE * random.standard_normal(band.shape, np.float32)
        band[:] = np.clip(band + deviation * noise, 0, 255)
    return Image.fromarray(pixels)


def _kind_of(index: int, seed: int) -> str:
    """One of `KINDS`, or "plain"; the golden ratio spreads each kind evenly over the photos."""
    position = (index * _GOLDEN_RATIO + np.random.default_rng(seed).random()) % 1.0
    return _draw_share({**KINDS, "plain": 1.0}, position)


def _store_colors(random: np.random.Generator, photo: Image.Image, kind: str) -> tuple[Image.Image, bytes | None]:
    """An sRGB picture in the mode and the colours of a kind of file, and that file's profile."""
    if kind == "grey":
        return photo.convert("L"), None
    if kind == "plain":
        return photo, None
    space = _draw_display(random) if kind == "display" else _SPACES[kind]
    profile = build_rgb_profile(space)
    if kind != "srgb":
        target = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        photo = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), target, "RGB", "RGB").apply(photo)
    return photo, profile


def _draw_display(random: np.random.Generator) -> RgbSpace:
    """A display as a calibration device finds it: sRGB's primaries and gamma, but for a little."""
    red, green, blue = ((x + random.normal(0, 0.01), y + random.normal(0, 0.01)) for x, y in SRGB.primaries)
    return RgbSpace("Calibrated display", (red, green, blue), SRGB.white, random.uniform(1.8, 2.4))


def measure_photo(photo: bytes) -> Counter[str]:
    """What `main` prints the shares of: 1 for each that holds for a JPEG file, and its bytes."""
    with Image.open(io.BytesIO(photo)) as image:
        profile = image.info.get("icc_profile")
        name = ImageCms.getProfileDescription(io.BytesIO(profile)) if profile else ""
        found = {
            "with a profile": bool(profile),
            "with one that is not sRGB": bool(profile) and "sRGB" not in name,
            "grey": image.mode == "L",
            "CMYK": image.mode == "CMYK",
            "rotated": image.getexif().get(ExifTags.Base.Orientation) in _UNDONE_BY_READER,
            "progressive": "progressive" in image.info,
            "upright": image.height > image.width,
            "of full chroma": JpegImagePlugin.get_sampling(image) == 0,
        }
        pixels = image.width * image.height
    return Counter({"bytes": len(photo), "pixels": pixels, **{what: int(holds) for what, holds in found.items()}})


def write_photo(
    index: int,
    *,
    output: pathlib.Path,
    classes: int,
    sizes: tuple[tuple[int, int], ...],
    seed: int,
) -> Counter[str]:
    """Writes one photo into the folder of its class and measures it; see `make_photo` and `measure_photo`."""
    photo = make_photo(index, sizes=sizes, seed=seed)
    (output / f"class_{index % classes:02d}" / f"photo_{index:07d}.jpg").write_bytes(photo)
    return measure_photo(photo)


def write_photos(
    output: pathlib.Path,
    *,
    count: int,
    sizes: tuple[tuple[int, int], ...] = (),
    seed: int = 0,
    classes: int = 10,
) -> Counter[str]:
    """Writes photos with one process per core.

    Args:
      output: folder; gets a folder per class.
      count: photos in all.
      sizes: see `make_photo`.
      seed: see `make_photo`.
      classes: number of classes, dealt out in turn.

    Returns:
      The sums of `measure_photo` over all photos.
    """
    for label in range(classes):
        (output / f"class_{label:02d}").mkdir(parents=True, exist_ok=True)
    write = functools.partial(write_photo, output=output, classes=classes, sizes=sizes, seed=seed)
    totals: Counter[str] = Counter()
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for measured in pool.imap_unordered(write, range(count), chunksize=8):
            totals.update(measured)
    return totals


def parse_sizes(text: str) -> tuple[tuple[int, int], ...]:
    """Reads `500x375` or `500x375,4000x3000` as (width, height) pairs; `mixed` has none of its own.

    Raises:
      ValueError: the text is none of these.
    """
    sizes: list[tuple[int, int]] = []
    for part in text.split(",") if text != MIXED else ():
        width, height = (int(number) for number in part.split("x"))
        sizes.append((width, height))
    return tuple(sizes)


def main() -> None:
    """Writes the photos that the command line asks for."""
    parser = argparse.ArgumentParser(description="Makes photo-like JPEG files.")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument(
        "--size",
        type=parse_sizes,
        default=MIXED,
        help="width x height; several, separated by commas, are drawn from at random; mixed: those of FORMS",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", type=int, default=10)
    arguments = parser.parse_args()
    start = time.monotonic()
    totals = write_photos(
        arguments.output,
        count=arguments.count,
        sizes=arguments.size,
        seed=arguments.seed,
        classes=arguments.classes,
    )
    seconds = time.monotonic() - start
    size, pixels = (totals.pop(what) / arguments.count for what in ("bytes", "pixels"))
    print(f"{arguments.count} photos of {size / 1e3:.0f} kB and {pixels:,.0f} pixels on average, in {seconds:.1f} s")
    print(", ".join(f"{what}: {number / arguments.count:.1%}" for what, number in totals.items()))


if __name__ == "__main__":
    main()
