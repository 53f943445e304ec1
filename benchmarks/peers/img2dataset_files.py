"""img2dataset with file:// URLs, one process per core, into tar shards (WebDataset).

    python benchmarks/peers/img2dataset_files.py PHOTOS OUTPUT WORKERS

Its TFRecord output needs tensorflow-io, which has no release for today's TensorFlow.
"""

from __future__ import annotations

import csv
import pathlib
import random
import sys

from img2dataset import download

_SHARDS_PER_WORKER = 4


def main() -> None:
    """Lists the photos as URLs and has them converted."""
    root, output, workers = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    output.mkdir(parents=True)
    photos = sorted(root.glob("*/*.jpg"))
    random.Random(0).shuffle(photos)
    url_list = output / "urls.csv"
    with open(url_list, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["url", "label"])
        rows.writerows([path.as_uri(), path.parent.name] for path in photos)
    download(
        url_list=str(url_list),
        input_format="csv",
        save_additional_columns=["label"],
        output_folder=str(output),
        output_format="webdataset",
        image_size=256,
        resize_mode="keep_ratio",
        encode_quality=95,
        processes_count=workers,
        thread_count=16,
        number_sample_per_shard=-(-len(photos) // (workers * _SHARDS_PER_WORKER)),
    )


if __name__ == "__main__":
    main()
