"""Compares the photos of `make_photos.py` with real ones, so that its constants can be fitted again.

    git clone https://github.com/EliSchwartz/imagenet-sample-images photos
    python benchmarks/compare_photos.py --photos=photos

Prints means and percentiles of both, and how much processor time made photos take of that of real ones: each real photo
in turn with a made one, in one process. The ratios are medians of the rounds.
"""

from __future__ import annotations

import argparse
import io
import pathlib
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from make_photos import make_photo, measure_photo
from PIL import Image
from run import list_photos

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.quality import Quality, measure_quality
from beam_tfrecords.transforms.processes.process_setup import prepare_process

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "peers"))

from photos import shrink_photo

_SPEC = ImageSpec(image_size=(256, 256))
_PERCENTILES = (5, 25, 50, 75, 95)
# Of which the bytes show how much detail a photo has, whatever its own quality.
_EQUAL_QUALITY = 96
_CODECS: Mapping[str, Callable[[bytes], object]] = {
    "Pillow": lambda data: shrink_photo(io.BytesIO(data)),
    "Pillow with draft()": lambda data: shrink_photo(io.BytesIO(data), draft=True),
    "our codec": lambda data: convert_image(data, _SPEC),
}


def measure_values(data: bytes) -> dict[str, float]:
    """The values of a photo that `main` prints percentiles of."""
    with Image.open(io.BytesIO(data)) as photo:
        quality = 100 - statistics.mean(photo.quantization[0]) / 2  # type: ignore[attr-defined]
        rgb = photo.convert("RGB")
    pixels = rgb.width * rgb.height
    encoded = io.BytesIO()
    rgb.save(encoded, "JPEG", quality=_EQUAL_QUALITY, subsampling="4:4:4")
    stored = convert_image(data, _SPEC).data
    with Image.open(io.BytesIO(stored)) as image:
        measured = measure_quality([Quality.of_image(image)])
    return {
        "kB": len(data) / 1e3,
        "thousand pixels": pixels / 1e3,
        "shorter side": min(rgb.size),
        "bytes per pixel": len(data) / pixels,
        "bytes per pixel at equal quality": len(encoded.getvalue()) / pixels,
        "100 - half the mean divisor": quality,
        "kB, converted": len(stored) / 1e3,
        **{name: measured[name][0] for name in ("brightness", "contrast", "sharpness")},
    }


def time_codecs(kinds: Sequence[Sequence[bytes]]) -> dict[str, list[float]]:
    """Processor time of each codec for the photos of each kind, in seconds; a photo of each in turn."""
    spent = {codec: [0.0] * len(kinds) for codec in _CODECS}
    for codec, convert in _CODECS.items():
        for index, photos in enumerate(zip(*kinds, strict=True)):
            # Each kind is first as often as last.
            for kind in sorted(range(len(kinds)), reverse=index % 2 == 1):
                begin = time.process_time()
                convert(photos[kind])
                spent[codec][kind] += time.process_time() - begin
    return spent


def main() -> None:
    """Prints the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=pathlib.Path, required=True, help="folder of real photos")
    parser.add_argument("--seed", type=int, default=0, help="of the made ones")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    prepare_process()
    real = [path.read_bytes() for path in list_photos(arguments.photos)]
    made = [make_photo(index, sizes=(), seed=arguments.seed) for index in range(len(real))]

    shares: list[Counter[str]] = [sum(map(measure_photo, photos), Counter()) for photos in (real, made)]
    for what in measure_photo(real[0]).keys() - {"bytes", "pixels"}:
        print(f"{what:34} real {shares[0][what] / len(real):6.1%}   made {shares[1][what] / len(made):6.1%}")
    values = [[measure_values(data) for data in photos] for photos in (real, made)]
    for what in values[0][0]:
        for kind, of_kind in zip(("real", "made"), values, strict=True):
            found = np.array([one[what] for one in of_kind])
            shown = "".join(f"{one:9.2f}" for one in np.percentile(found, _PERCENTILES))
            print(f"{what:34} {kind} mean {found.mean():8.2f}   percentiles {_PERCENTILES} {shown}", flush=True)

    ratios: dict[str, list[float]] = {codec: [] for codec in _CODECS}
    for number in range(arguments.rounds):
        for codec, (of_real, of_made) in time_codecs((real, made)).items():
            ratios[codec].append(of_made / of_real)
            print(f"round {number + 1}  {codec:20} real {of_real:6.2f} s   made {of_made:6.2f} s", flush=True)
    for codec, found_ratios in ratios.items():
        print(f"{codec:20} made photos take {statistics.median(found_ratios):.3f} of the time of real ones")


if __name__ == "__main__":
    main()
