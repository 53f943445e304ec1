"""Makes any number of distinct photo-like JPEG files from the sample photos.

    python benchmarks/make_photos.py --output=photos --count=5000
    python benchmarks/make_photos.py --output=large --count=200 --size=4000x3000,6000x4000

They resemble ImageNet's files. Measured on ImageNet: 110 KB on average, 28% with a profile, 9% with one that
is not sRGB, a few grey, CMYK or rotated. Each figure is met as follows:

* Size: each photo is a random crop of a sample photo, perhaps mirrored, with its colours shifted a little, and
  enlarged. Sensor-like noise of a random strength brings 500x375 to 110 KB on average. A quarter are upright.
* Profiles: `KINDS` lists their shares. The pixels are converted to the profile's colours, so that a reader who
  applies the profile sees the sRGB picture. A display's profile differs from file to file.
* Grey and CMYK: 2% and 0.2%, stored with one and four components.
* Rotated: 1% are stored turned, with the EXIF orientation that undoes it.
* Progressive: 4%, an assumption.

Photo i depends on the seed and i alone: a larger count leaves the earlier photos as they are.
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

import numpy as np
from icc_profiles import ADOBE_RGB, APPLE_RGB, DISPLAY_P3, PROPHOTO_RGB, SRGB, RgbSpace, build_rgb_profile
from PIL import ExifTags, Image, ImageCms, ImageOps

_SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "photos"
_CHROMA = {"420": "4:2:0", "444": "4:4:4"}

# Kind of file -> its share; the rest is RGB without a profile. 19% + 9% have a profile.
KINDS = {
    "grey": 0.02,
    "cmyk": 0.002,
    "srgb": 0.19,
    "adobe_rgb": 0.05,
    "apple_rgb": 0.02,
    "display": 0.01,
    "display_p3": 0.007,
    "prophoto": 0.003,
}
_SPACES = {
    "srgb": SRGB,
    "adobe_rgb": ADOBE_RGB,
    "apple_rgb": APPLE_RGB,
    "display_p3": DISPLAY_P3,
    "prophoto": PROPHOTO_RGB,
}
_GOLDEN_RATIO = (5**0.5 - 1) / 2
_UPRIGHT, _ROTATED, _PROGRESSIVE = 0.25, 0.01, 0.04
# EXIF orientation -> what is done to the picture so that a reader who applies the tag undoes it. Cameras
# write no mirrored ones.
_UNDONE_BY_READER = {
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}

# Standard deviation of the noise in grey levels at `_NOISE_PIXELS`, smallest and largest. Small photos have
# been scaled down and have more detail per pixel: 12 megapixels get a third of it, and take 3 to 4 MB.
_NOISE = (4.0, 13.0)
_NOISE_PIXELS = 500 * 375
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


def make_photo(index: int, *, sizes: tuple[tuple[int, int], ...], seed: int, chroma: str, quality: int) -> bytes:
    """Makes one photo.

    Args:
      index: number of the photo.
      sizes: (width, height) in pixels, of which one is drawn; an upright photo swaps them.
      seed: of the whole set.
      chroma: "420", "444" or "mixed", which draws one of the two.
      quality: of the JPEG, 1 to 100.

    Returns:
      The JPEG file.
    """
    random = np.random.default_rng([seed, index])
    size = sizes[random.integers(len(sizes))]
    photo = _draw_picture(random, size[::-1] if random.random() < _UPRIGHT else size)
    photo, profile = _store_colors(random, photo, _kind_of(index, seed))
    exif = Image.Exif()
    if random.random() < _ROTATED:
        orientation = int(random.choice(list(_UNDONE_BY_READER)))
        photo = photo.transpose(_UNDONE_BY_READER[orientation])
        exif[ExifTags.Base.Orientation] = orientation
    photo = _add_noise(random, photo)
    file = io.BytesIO()
    photo.save(
        file,
        "JPEG",
        quality=quality,
        subsampling=_CHROMA.get(chroma) or _CHROMA[("420", "444")[random.integers(2)]],
        progressive=bool(random.random() < _PROGRESSIVE),
        icc_profile=profile,
        exif=exif.tobytes() if exif else b"",
    )
    return file.getvalue()


def _draw_picture(random: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """A random crop of a sample photo, of that (width, height), as RGB."""
    samples = load_samples()
    sample = samples[random.integers(len(samples))]
    width, height = size
    largest = min(sample.width / width, sample.height / height)
    scale = largest * random.uniform(0.5, 1.0)
    left = random.uniform(0, sample.width - width * scale)
    top = random.uniform(0, sample.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    if random.random() < 0.5:
        sample, box = ImageOps.mirror(sample), (sample.width - box[2], top, sample.width - left, box[3])
    picture = sample.resize(size, Image.Resampling.BICUBIC, box=box)
    gains = random.uniform(0.85, 1.1, 3)
    offsets = random.uniform(-12, 12, 3)
    levels = np.clip(np.arange(256)[None, :] * gains[:, None] + offsets[:, None], 0, 255)
    return picture.point(levels.astype(int).ravel().tolist())


def _kind_of(index: int, seed: int) -> str:
    """One of `KINDS`, or "plain"; the golden ratio spreads each kind evenly over the photos."""
    position = (index * _GOLDEN_RATIO + np.random.default_rng(seed).random()) % 1.0
    for kind, share in KINDS.items():
        if position < share:
            return kind
        position -= share
    return "plain"


def _store_colors(random: np.random.Generator, photo: Image.Image, kind: str) -> tuple[Image.Image, bytes | None]:
    """An sRGB picture in the mode and the colours of a kind of file, and that file's profile."""
    if kind == "grey":
        return photo.convert("L"), None
    if kind == "cmyk":
        return photo.convert("CMYK"), None
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


def _add_noise(random: np.random.Generator, photo: Image.Image) -> Image.Image:
    """The picture with noise that is the same in all its channels."""
    pixels = np.array(photo)  # [H, W] or [H, W, C] uint8
    deviation = random.uniform(*_NOISE) * (_NOISE_PIXELS / (photo.width * photo.height)) ** 0.25
    for top in range(0, len(pixels), _BAND_ROWS):
        band = pixels[top : top + _BAND_ROWS]
        noise = (random.standard_normal(band.shape[:2], np.float32) * deviation).astype(np.int16)
        colors = band[..., :3] if band.ndim == 3 else band  # CMYK's black stays as it is
        colors[:] = np.clip(colors + (noise[..., None] if band.ndim == 3 else noise), 0, 255)
    return Image.fromarray(pixels, photo.mode)


def measure_photo(photo: bytes) -> Counter[str]:
    """What `main` prints the shares of: 1 for each that holds for a JPEG file, and its bytes."""
    with Image.open(io.BytesIO(photo)) as image:
        profile = image.info.get("icc_profile")
        name = ImageCms.getProfileDescription(io.BytesIO(profile)) if profile else ""
        found = {
            "with a profile": bool(profile),
            "with one that is not sRGB": bool(profile) and not name.startswith("sRGB"),
            "grey": image.mode == "L",
            "CMYK": image.mode == "CMYK",
            "rotated": image.getexif().get(ExifTags.Base.Orientation, 1) != 1,
            "progressive": "progressive" in image.info,
            "upright": image.height > image.width,
        }
    return Counter({"bytes": len(photo), **{what: int(holds) for what, holds in found.items()}})


def write_photo(
    index: int,
    *,
    output: pathlib.Path,
    classes: int,
    sizes: tuple[tuple[int, int], ...],
    seed: int,
    chroma: str,
    quality: int,
) -> Counter[str]:
    """Writes one photo into the folder of its class and measures it; see `make_photo` and `measure_photo`."""
    photo = make_photo(index, sizes=sizes, seed=seed, chroma=chroma, quality=quality)
    (output / f"class_{index % classes:02d}" / f"photo_{index:07d}.jpg").write_bytes(photo)
    return measure_photo(photo)


def write_photos(
    output: pathlib.Path,
    *,
    count: int,
    sizes: tuple[tuple[int, int], ...] = ((500, 375),),
    seed: int = 0,
    chroma: str = "mixed",
    classes: int = 10,
    quality: int = 95,
) -> Counter[str]:
    """Writes photos with one process per core.

    Args:
      output: folder; gets a folder per class.
      count: photos in all.
      sizes: see `make_photo`.
      seed: see `make_photo`.
      chroma: see `make_photo`.
      classes: number of classes, dealt out in turn.
      quality: see `make_photo`.

    Returns:
      The sums of `measure_photo` over all photos.
    """
    for label in range(classes):
        (output / f"class_{label:02d}").mkdir(parents=True, exist_ok=True)
    write = functools.partial(
        write_photo, output=output, classes=classes, sizes=sizes, seed=seed, chroma=chroma, quality=quality
    )
    totals: Counter[str] = Counter()
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for measured in pool.imap_unordered(write, range(count), chunksize=8):
            totals.update(measured)
    return totals


def parse_sizes(text: str) -> tuple[tuple[int, int], ...]:
    """Reads `500x375` or `500x375,4000x3000` as (width, height) pairs.

    Raises:
      ValueError: the text is none of these.
    """
    sizes = []
    for part in text.split(","):
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
        default="500x375",
        help="width x height; several, separated by commas, are drawn from at random",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chroma", choices=("420", "444", "mixed"), default="mixed")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--quality", type=int, default=95)
    arguments = parser.parse_args()
    start = time.monotonic()
    totals = write_photos(
        arguments.output,
        count=arguments.count,
        sizes=arguments.size,
        seed=arguments.seed,
        chroma=arguments.chroma,
        classes=arguments.classes,
        quality=arguments.quality,
    )
    seconds = time.monotonic() - start
    average = totals.pop("bytes") / arguments.count
    print(f"{arguments.count} photos, {average / 1e3:.0f} kB on average, in {seconds:.1f} s")
    print(", ".join(f"{what}: {number / arguments.count:.1%}" for what, number in totals.items()))


if __name__ == "__main__":
    main()
