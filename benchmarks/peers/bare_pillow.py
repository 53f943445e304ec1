"""The limit: what a good script without a framework does, with Pillow and one process per core.

    python benchmarks/peers/bare_pillow.py PHOTOS OUTPUT WORKERS [--draft]

Every process converts its share of the shuffled list and writes a TFRecord file of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pathlib
import struct

import google_crc32c
from photos import list_photos, shrink_photo


def serialize(image: bytes, label: int) -> bytes:
    """A serialized tf.train.Example with the features `image` and `label`."""
    # Feature.bytes_list is field 1, Feature.int64_list field 3; both hold their values in field 1.
    features = {b"image": _field(1, _field(1, image)), b"label": _field(3, _field(1, _varint(label)))}
    entries = (_field(1, _field(1, name) + _field(2, feature)) for name, feature in features.items())
    return _field(1, b"".join(entries))


def _field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def write_records(photos: list[tuple[pathlib.Path, int]], target: pathlib.Path, draft: bool) -> None:
    """Converts photos and writes them into one TFRecord file.

    Args:
      photos: path and label of each.
      target: the file.
      draft: see `photos.shrink_photo`.
    """
    with open(target, "wb") as file:
        for path, label in photos:
            record = serialize(shrink_photo(path, draft=draft), label)
            length = struct.pack("<Q", len(record))
            file.write(b"".join((length, _masked_crc(length), record, _masked_crc(record))))


def main() -> None:
    """Converts a folder of class folders."""
    parser = argparse.ArgumentParser(description="Photos to TFRecord files with Pillow alone.")
    parser.add_argument("photos", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("workers", type=int)
    parser.add_argument("--draft", action="store_true", help="let libjpeg decode at a reduced scale")
    arguments = parser.parse_args()

    arguments.output.mkdir(parents=True)
    photos = list_photos(arguments.photos)
    shares = [
        (photos[worker :: arguments.workers], arguments.output / f"{worker}.tfrecord", arguments.draft)
        for worker in range(arguments.workers)
    ]
    with multiprocessing.Pool(arguments.workers) as pool:
        pool.starmap(write_records, shares, chunksize=1)


if __name__ == "__main__":
    main()
