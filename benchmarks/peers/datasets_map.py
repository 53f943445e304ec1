"""Hugging Face's datasets: its image folder, mapped in one process per core, into Parquet files.

    python benchmarks/peers/datasets_map.py PHOTOS OUTPUT WORKERS

`imagefolder` lists the photos and makes labels of the folders. The images are not decoded by datasets: the function
gets their paths, as those of the other contestants do.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import datasets  # type: ignore[import-not-found]
from photos import shrink_photo


def shrink(row: dict[str, Any]) -> dict[str, Any]:
    """The image of a row, resized and encoded."""
    photo = pathlib.Path(row["image"]["path"])
    return {"image": {"bytes": shrink_photo(photo), "path": photo.name}}


def main() -> None:
    """Converts a folder of class folders."""
    root, output, workers = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    cache = str(output.with_name("datasets_cache"))
    photos = datasets.load_dataset("imagefolder", data_dir=str(root), split="train", cache_dir=cache)
    photos = photos.cast_column("image", datasets.Image(decode=False)).shuffle(seed=0)
    shrunk = photos.map(shrink, num_proc=workers)
    output.mkdir(parents=True)
    for worker in range(workers):
        share = shrunk.shard(workers, worker, contiguous=True)
        share.to_parquet(str(output / f"{worker:05d}.parquet"))


if __name__ == "__main__":
    main()
