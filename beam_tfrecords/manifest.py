"""What a manifest says of shards and of how images are stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Shard:
    """A finished shard.

    Attributes:
      split: its split.
      number: its number, from 0.
      of: number of shards of the split.
      file: name of its file.
      records: number of records.
      bytes: size of the file.
      crc32c: CRC-32C of the file, 8 hex digits; None in format 1.
      index: name of its index file relative to the dataset, or None.
      index_sha256: hex digest of the index file, or None.
      first_key: key of its first record; None if it has no record or no index.
      sha256: hex digest of the file; in format 1 only.
    """

    split: str
    number: int
    of: int
    file: str
    records: int
    bytes: int
    crc32c: str | None
    index: str | None
    index_sha256: str | None
    first_key: str | None = None
    sha256: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain values, for the manifest."""
        values = dataclasses.asdict(self)
        del values["sha256"]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Shard:
        """The reverse of `to_json`, for every format."""
        return cls(**{"crc32c": None, **values})


# Resize modes that give every image the height and width that were asked for.
_FIXED_MODES = ("exact", "pad", "crop")


@dataclasses.dataclass(frozen=True)
class StoredImages:
    """How the images of a dataset are stored.

    Attributes:
      encoding: "jpeg", "png", "webp", "raw" or "keep".
      channels: 1, 3 or 4; None if each image has those of its file.
      size: (height, width) in pixels of every image; None if they differ.
      bit_depth: bits per channel, 8 or 16.
      mask_bit_depth: bits of a mask, 8 or 16.
    """

    encoding: str
    channels: int | None
    size: tuple[int, int] | None
    bit_depth: int = 8
    mask_bit_depth: int = 8

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> StoredImages:
        """Reads the settings that a manifest records."""
        size = spec["image_size"]
        is_fixed = size is not None and spec["resize_mode"] in _FIXED_MODES and spec["upscale"]
        height, width = map(int, size.split("x")) if is_fixed else (0, 0)
        channels = spec["channels"]
        return cls(
            spec["image_encoding"],
            None if channels == "keep" else channels,
            (height, width) if is_fixed else None,
            # Earlier versions of beam-tfrecords had 8 only.
            spec.get("bit_depth", 8),
            spec.get("mask_bit_depth", 8),
        )
