"""Reads a batch of every split and prints the shapes of its features: `python -m transforms.reading OUT`."""

from __future__ import annotations

import sys

from transforms.dataset import open_dataset
from transforms.reading.tf_data import load


def main(path: str) -> None:
    """Prints a line per split."""
    for split in sorted({shard.split for shard in open_dataset(path).shards}):
        batch = next(iter(load(path, split, batch_size=8, image_size=(224, 224))))
        shapes = ", ".join(f"{name} {value.dtype.name}{list(value.shape)}" for name, value in sorted(batch.items()))
        print(f"a batch of {split}: {shapes}")


if __name__ == "__main__":
    main(sys.argv[1])
