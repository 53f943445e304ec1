"""Daft on its local runner, into Parquet files.

    python benchmarks/peers/daft_images.py PHOTOS OUTPUT

Daft's own `resize` takes one exact size for all rows, and its JPEG encoder one fixed quality (75). So Daft schedules
and writes, and the same Pillow function as elsewhere resizes the photos.
"""

from __future__ import annotations

import pathlib
import sys

import daft  # type: ignore[import-not-found]
from photos import list_photos, shrink_photo

# Daft works on whole batches. By default all photos are one, which one thread converts.
_BATCH_ROWS = 64


@daft.func(return_dtype=daft.DataType.binary())
def shrink(path: str) -> bytes:
    """Resizes and encodes one photo."""
    return shrink_photo(pathlib.Path(path))


def main() -> None:
    """Converts a folder of class folders."""
    photos = list_photos(pathlib.Path(sys.argv[1]))
    paths, labels = [str(path) for path, _ in photos], [label for _, label in photos]
    frame = daft.from_pydict({"path": paths, "label": labels}).into_batches(_BATCH_ROWS)
    frame.select(shrink(frame["path"]).alias("image"), frame["label"]).write_parquet(sys.argv[2])


if __name__ == "__main__":
    main()
