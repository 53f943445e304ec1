"""The limit: what a good script without a framework does, with Pillow and one process per core.

    python benchmarks/peers/bare_pillow.py PHOTOS OUTPUT WORKERS [--codec=pillow|draft|own]

Every process converts its share of the shuffled list and writes a TFRecord file of its own. With
`--codec=own` it calls the project's codec in place of Pillow: what the rest of beam-tfrecords costs is the
difference to that.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import pathlib
import struct
from collections.abc import Callable

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


def shrink_with_own_codec(path: pathlib.Path) -> bytes:
    """What `shrink_photo` does, by the project's codec."""
    from beam_tfrecords.transforms.images.convert_image import convert_image
    from beam_tfrecords.transforms.images.image_spec import ImageSpec

    return convert_image(path.read_bytes(), ImageSpec(image_size=(256, 256))).data


CODECS: dict[str, Callable[[pathlib.Path], bytes]] = {
    "pillow": shrink_photo,
    "draft": functools.partial(shrink_photo, draft=True),
    "own": shrink_with_own_codec,
}


def write_records(photos: list[tuple[pathlib.Path, int]], target: pathlib.Path, codec: str) -> None:
    """Converts photos and writes them into one TFRecord file.

    Args:
      photos: path and label of each.
      target: the file.
      codec: one of `CODECS`.
    """
    with open(target, "wb") as file:
        for path, label in photos:
            record = serialize(CODECS[codec](path), label)
            length = struct.pack("<Q", len(record))
            file.write(b"".join((length, _masked_crc(length), record, _masked_crc(record))))


def main() -> None:
    """Converts a folder of class folders."""
    parser = argparse.ArgumentParser(description="Photos to TFRecord files with Pillow alone.")
    parser.add_argument("photos", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("workers", type=int)
    parser.add_argument("--codec", choices=CODECS, default="pillow", help="draft: libjpeg decodes at a reduced scale")
    arguments = parser.parse_args()

    arguments.output.mkdir(parents=True)
    photos = list_photos(arguments.photos)
    shares = [
        (photos[worker :: arguments.workers], arguments.output / f"{worker}.tfrecord", arguments.codec)
        for worker in range(arguments.workers)
    ]
    with multiprocessing.Pool(arguments.workers) as pool:
        pool.starmap(write_records, shares, chunksize=1)


if __name__ == "__main__":
    main()
