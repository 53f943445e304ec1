"""Ray Data with write_tfrecords, as many CPUs as workers.

python benchmarks/peers/ray_data.py PHOTOS OUTPUT WORKERS
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import ray
import ray.data
from photos import list_photos, shrink_photo


def make_row(photo: dict[str, Any]) -> dict[str, Any]:
    """The features of one photo, given its path and label."""
    return {"image": shrink_photo(pathlib.Path(photo["path"])), "label": photo["label"]}


def main() -> None:
    """Converts a folder of class folders."""
    ray.init(num_cpus=int(sys.argv[3]), include_dashboard=False)
    photos = [{"path": str(path), "label": label} for path, label in list_photos(pathlib.Path(sys.argv[1]))]
    ray.data.from_items(photos).map(make_row).write_tfrecords(sys.argv[2])


if __name__ == "__main__":
    main()
