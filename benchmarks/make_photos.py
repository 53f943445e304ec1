"""Makes any number of distinct photo-like JPEG files from the sample photos.

    python benchmarks/make_photos.py --output=photos --count=5000
    python benchmarks/make_photos.py --output=large --count=200 --size=4000x3000,6000x4000

Each is a random crop of a sample photo, perhaps mirrored, with its colours shifted a little, enlarged,
and covered with noise like a sensor's, which makes the files as large as a camera's. Photo number i
hangs on the seed and i alone: a larger count leaves the earlier photos as they are.
"""

from __future__ import annotations

import argparse
import functools
import io
import multiprocessing
import os
import pathlib
import time

import numpy as np
from PIL import Image, ImageOps

_SAMPLES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "photos"
_CHROMA = {"420": "4:2:0", "444": "4:4:4"}
# Standard deviation in grey levels. With it, 500x375 at quality 90 makes files like ImageNet's.
_NOISE = 6.0
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
      sizes: (width, height) in pixels, of which one is drawn.
      seed: of the whole set.
      chroma: "420", "444" or "mixed", which draws one of the two.
      quality: of the JPEG, 1 to 100.

    Returns:
      The JPEG file.
    """
    random = np.random.default_rng([seed, index])
    samples = load_samples()
    sample = samples[random.integers(len(samples))]
    width, height = sizes[random.integers(len(sizes))]

    largest = min(sample.width / width, sample.height / height)
    scale = largest * random.uniform(0.5, 1.0)
    left = random.uniform(0, sample.width - width * scale)
    top = random.uniform(0, sample.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    if random.random() < 0.5:
        sample, box = ImageOps.mirror(sample), (sample.width - box[2], top, sample.width - left, box[3])
    photo = sample.resize((width, height), Image.Resampling.BICUBIC, box=box)

    gains = random.uniform(0.85, 1.1, 3)
    offsets = random.uniform(-12, 12, 3)
    levels = np.clip(np.arange(256)[None, :] * gains[:, None] + offsets[:, None], 0, 255)
    pixels = np.array(photo.point(levels.astype(int).ravel().tolist()))  # [H, W, 3] uint8
    _add_noise(pixels, random)

    subsampling = _CHROMA.get(chroma) or _CHROMA[("420", "444")[random.integers(2)]]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling=subsampling)
    return file.getvalue()


def _add_noise(pixels: np.ndarray, random: np.random.Generator) -> None:
    for top in range(0, len(pixels), _BAND_ROWS):
        band = pixels[top : top + _BAND_ROWS]
        noise = random.standard_normal(band.shape[:2], np.float32) * _NOISE
        noisy = band.astype(np.int16) + noise.astype(np.int16)[..., None]
        band[:] = np.clip(noisy, 0, 255)


def write_photo(
    index: int,
    *,
    output: pathlib.Path,
    classes: int,
    sizes: tuple[tuple[int, int], ...],
    seed: int,
    chroma: str,
    quality: int,
) -> int:
    """Writes one photo into the folder of its class and returns its bytes; see `make_photo`."""
    photo = make_photo(index, sizes=sizes, seed=seed, chroma=chroma, quality=quality)
    return (output / f"class_{index % classes:02d}" / f"photo_{index:07d}.jpg").write_bytes(photo)


def write_photos(
    output: pathlib.Path,
    *,
    count: int,
    sizes: tuple[tuple[int, int], ...] = ((500, 375),),
    seed: int = 0,
    chroma: str = "mixed",
    classes: int = 10,
    quality: int = 90,
) -> int:
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
      Bytes written.
    """
    for label in range(classes):
        (output / f"class_{label:02d}").mkdir(parents=True, exist_ok=True)
    write = functools.partial(
        write_photo, output=output, classes=classes, sizes=sizes, seed=seed, chroma=chroma, quality=quality
    )
    with multiprocessing.Pool(os.cpu_count()) as pool:
        return sum(pool.imap_unordered(write, range(count), chunksize=8))


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
    parser.add_argument("--quality", type=int, default=90)
    arguments = parser.parse_args()
    start = time.monotonic()
    written = write_photos(
        arguments.output,
        count=arguments.count,
        sizes=arguments.size,
        seed=arguments.seed,
        chroma=arguments.chroma,
        classes=arguments.classes,
        quality=arguments.quality,
    )
    seconds = time.monotonic() - start
    print(f"{arguments.count} photos, {written / arguments.count / 1e3:.0f} kB on average, in {seconds:.1f} s")


if __name__ == "__main__":
    main()
