"""The limits of passing files through: copying them into one file per process, or decoding them and no more.

python benchmarks/peers/bare_pass.py PHOTOS OUTPUT WORKERS copy|decode
"""

from __future__ import annotations

import multiprocessing
import pathlib
import sys
from collections.abc import Callable

from photos import list_photos
from PIL import Image


def copy_photos(photos: list[pathlib.Path], target: pathlib.Path) -> None:
    """Concatenates files."""
    with open(target, "wb") as file:
        for path in photos:
            file.write(path.read_bytes())


def decode_photos(photos: list[pathlib.Path], _: pathlib.Path) -> None:
    """Decodes every pixel and keeps none."""
    for path in photos:
        with Image.open(path) as photo:
            photo.load()


WORK: dict[str, Callable[[list[pathlib.Path], pathlib.Path], None]] = {"copy": copy_photos, "decode": decode_photos}


def main() -> None:
    """Passes a folder of class folders through, and notes how many photos that were."""
    root, output, workers = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    output.mkdir(parents=True)
    photos = [path for path, _ in list_photos(root)]
    shares = [(photos[worker::workers], output / f"{worker}.bin") for worker in range(workers)]
    with multiprocessing.Pool(workers) as pool:
        pool.starmap(WORK[sys.argv[4]], shares, chunksize=1)
    (output / "count.txt").write_text(str(len(photos)))


if __name__ == "__main__":
    main()
