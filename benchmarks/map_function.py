"""What a function of the user costs, against a build without it and a bare pool around our codec.

    python benchmarks/map_function.py                     8,000 photos like ImageNet's, 5 rounds
    python benchmarks/map_function.py --count=2000 --rounds=1

A contestant converts all photos, and a quarter of them; the difference has no start-up in it. Processor time is
counted, which other programs on the machine change little. The figures go to --results.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping

from figures import write_figures
from map_steps import crop
from run import photo_options, photos_title, prepare_photos

from beam_tfrecords import Sample
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.upright import decode_upright
from beam_tfrecords.transforms.mapping.pixel_file import pixel_file
from beam_tfrecords.transforms.processes.pool import usable_cores
from beam_tfrecords.transforms.processes.process_setup import prepare_process

_COMMAND = pathlib.Path(sys.executable).with_name("beam-tfrecords")
# Children whose parent ends become those of this process (prctl(2)).
_PR_SET_CHILD_SUBREAPER = 36
_SPEC = ImageSpec(image_size=(256, 256))


def build(photos: pathlib.Path, output: pathlib.Path, *flags: str) -> None:
    """Builds a dataset."""
    command = [str(_COMMAND), "convert", f"--input={photos}", f"--output={output}", "--image_size=256", *flags]
    here = pathlib.Path(__file__).resolve().parent
    subprocess.run(command, check=True, capture_output=True, cwd=here)


def convert_plainly(data: bytes) -> bytes:
    """Converts a photo."""
    return convert_image(data, _SPEC).data


def convert_cropped(data: bytes) -> bytes:
    """Decodes a photo, crops it, and converts the rest."""
    pixels = crop(Sample("photo", image=decode_upright(data, _SPEC).pixels)).images["image"]
    return convert_image(pixel_file(pixels), _SPEC).data


def convert_share(paths: list[pathlib.Path], target: pathlib.Path, convert: Callable[[bytes], bytes]) -> None:
    """Converts photos into one file."""
    prepare_process()
    with target.open("wb") as file:
        for path in paths:
            file.write(convert(path.read_bytes()))


def convert_in_pool(photos: pathlib.Path, output: pathlib.Path, convert: Callable[[bytes], bytes]) -> None:
    """Converts a folder of photos in a bare pool."""
    output.mkdir()
    paths, workers = sorted(photos.rglob("*.jpg")), usable_cores()
    shares = [(paths[worker::workers], output / f"{worker}.bin", convert) for worker in range(workers)]
    with multiprocessing.Pool(workers) as pool:
        pool.starmap(convert_share, shares, chunksize=1)


def processor_seconds() -> float:
    """Of all descendants that have ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


CONTESTANTS: Mapping[str, Callable[[pathlib.Path, pathlib.Path], None]] = {
    "without": build,
    "same": lambda photos, output: build(photos, output, "--map=map_steps:same"),
    "crop": lambda photos, output: build(photos, output, "--map=map_steps:crop"),
    "pool": lambda photos, output: convert_in_pool(photos, output, convert_plainly),
    "pool, crop": lambda photos, output: convert_in_pool(photos, output, convert_cropped),
}


def main() -> None:
    """Runs the rounds and prints the medians."""
    arguments = photo_options(__doc__ or "").parse_args()
    photos = prepare_photos(arguments)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    msec: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    with tempfile.TemporaryDirectory(dir=photos.parent) as folder:
        quarter = pathlib.Path(folder, "quarter")
        chosen = sorted(photos.rglob("*.jpg"))[::4]
        for path in chosen:
            target = quarter / path.relative_to(photos)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(path)
        for number in range(arguments.rounds):
            for name, convert in CONTESTANTS.items():
                spent = []
                for inputs in (quarter, photos):
                    output = pathlib.Path(folder, "output")
                    begin = processor_seconds()
                    convert(inputs, output)
                    spent.append(processor_seconds() - begin)
                    shutil.rmtree(output)
                msec[name].append(1000 * (spent[1] - spent[0]) / (arguments.count - len(chosen)))
            print(f"round {number + 1}  { ({name: round(found[-1], 2) for name, found in msec.items()}) }", flush=True)
    for name, found in msec.items():
        print(f"{name:12} {statistics.median(found):7.2f} ms of one core for a photo")
    write_figures(
        arguments.results / f"map_{arguments.count}.json",
        script=__file__,
        rounds=arguments.rounds,
        size=photos_title(arguments),
        count=arguments.count,
        msec=msec,
    )


if __name__ == "__main__":
    main()
