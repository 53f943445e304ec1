"""Daft on its local runner, into Parquet files.

    python benchmarks/peers/daft_images.py PHOTOS OUTPUT [--codec=pillow|daft]

Daft's own `resize` takes one exact size for all rows, and its JPEG encoder one fixed quality (75), so it cannot
do the contestants' task. With `--codec=pillow` Daft schedules and writes, and the photos are resized by the
same Pillow function as the others'. `--codec=daft` is the nearest task in its own expressions, and a lighter
one: decode, resize to 341x256 whatever the photo's shape, encode.
"""

from __future__ import annotations

import argparse
import pathlib

import daft  # type: ignore[import-not-found]
from daft.functions import decode_image, download, encode_image, resize  # type: ignore[import-not-found]
from photos import list_photos, shrink_photo

_WIDTH, _HEIGHT = 341, 256
# Daft works on whole batches. By default all photos are one, which one thread converts.
_BATCH_ROWS = 64


@daft.func(return_dtype=daft.DataType.binary())
def shrink(path: str) -> bytes:
    """Resizes and encodes one photo."""
    return shrink_photo(pathlib.Path(path))


def main() -> None:
    """Converts a folder of class folders."""
    parser = argparse.ArgumentParser(description="Photos to Parquet files with Daft.")
    parser.add_argument("photos", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--codec", choices=("pillow", "daft"), default="pillow")
    arguments = parser.parse_args()
    photos = list_photos(arguments.photos)
    paths, labels = [str(path) for path, _ in photos], [label for _, label in photos]
    frame = daft.from_pydict({"path": paths, "label": labels}).into_batches(_BATCH_ROWS)
    if arguments.codec == "pillow":
        image = shrink(frame["path"])
    else:
        image = encode_image(resize(decode_image(download(frame["path"])), _WIDTH, _HEIGHT), "JPEG")
    frame.select(image.alias("image"), frame["label"]).write_parquet(str(arguments.output))


if __name__ == "__main__":
    main()
