"""litData's optimize, one process per core, into its chunk files.

    python benchmarks/peers/litdata_optimize.py PHOTOS OUTPUT WORKERS

litData needs torch. PyPI's torch for Linux brings CUDA's libraries: the environment takes 5.5 GB of disk, and
some of the memory measured is theirs.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

import litdata  # type: ignore[import-not-found]
from photos import list_photos, shrink_photo

# What litData's own examples use.
_CHUNK_BYTES = "64MB"


def make_sample(photo: tuple[str, int]) -> dict[str, Any]:
    """The fields of one photo, given its path and label."""
    path, label = photo
    return {"image": shrink_photo(pathlib.Path(path)), "label": label}


def main() -> None:
    """Converts a folder of class folders."""
    root, output, workers = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    # Chunks are written here first, then moved. The default is the system's folder for temporary files.
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(output.with_name("litdata_cache"))
    litdata.optimize(
        fn=make_sample,
        inputs=[(str(path), label) for path, label in list_photos(root)],
        output_dir=str(output),
        chunk_bytes=_CHUNK_BYTES,
        num_workers=workers,
        verbose=False,
    )


if __name__ == "__main__":
    main()
