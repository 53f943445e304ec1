"""How near `codec=fast` is to `codec=exact`: PSNR of their pixels before they are encoded, over many photos.

    python benchmarks/fast_codec.py                     2,000 photos like ImageNet's
    python benchmarks/fast_codec.py --size=1600x1200 --count=500
    python benchmarks/fast_codec.py --photos=DIR --count=1000   a folder of real photos

Percentiles for each shorter side go to --results; the same photos always give the same.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import multiprocessing
import pathlib
from collections.abc import Sequence

import numpy as np
from figures import write_figures
from run import photo_options, photos_title, prepare_photos

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, ResizeMode
from beam_tfrecords.transforms.processes.pool import usable_cores

_SIDES = (32, 64, 128, 224, 256)
_PERCENTILES = (0, 0.1, 1, 10, 50)


def measure(path: pathlib.Path, sides: Sequence[int]) -> list[float]:
    """PSNR of a photo at each shorter side, in dB; infinite if the pixels are equal."""
    data = path.read_bytes()
    found = []
    for side in sides:
        spec = ImageSpec((side, side), resize_mode=ResizeMode.CROP, image_encoding=ImageEncoding.RAW)
        exact, fast = (
            np.frombuffer(convert_image(data, dataclasses.replace(spec, codec=codec)).data, np.uint8).astype(np.float64)
            for codec in (Codec.EXACT, Codec.FAST)
        )
        error = float(np.mean((exact - fast) ** 2))
        found.append(10 * math.log10(255**2 / error) if error else math.inf)
    return found


def lowest_without(values: np.ndarray, percent: float) -> float:
    """The lowest value when a percentage of them, the lowest, is left out: all others are at least that."""
    return float(np.sort(values)[int(len(values) * percent / 100)])


def main() -> None:
    """Measures all photos and prints the percentiles."""
    arguments = photo_options(__doc__ or "", count=2000, rounds=1).parse_args()
    paths = sorted(prepare_photos(arguments).rglob("*.jpg"))
    with multiprocessing.Pool(usable_cores()) as pool:
        found = np.array(pool.map(functools.partial(measure, sides=_SIDES), paths, chunksize=16))
    decibels: dict[str, dict[str, float]] = {}
    for side, values in zip(_SIDES, found.T, strict=True):
        decibels[str(side)] = {str(percent): round(lowest_without(values, percent), 1) for percent in _PERCENTILES}
        below = int(np.sum(values < 38))
        print(f"{side:4}  {decibels[str(side)]}  below 38 dB: {below} of {len(paths)}", flush=True)
        print("      lowest:", *(paths[place].name for place in np.argsort(values)[:3]))
    write_figures(
        arguments.results / "fast_codec.json",
        script=__file__,
        rounds=arguments.rounds,
        size=photos_title(arguments),
        count=arguments.count,
        decibels=decibels,
    )


if __name__ == "__main__":
    main()
