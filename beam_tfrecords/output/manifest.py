"""The content of a manifest and of the lists beside it, with checks of their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.output.files import SHARDS
from beam_tfrecords.output.schema import Check, count, fields, listed, mapped, optional, plain, text

# Format of a manifest that lists its shards. Version 0.1.0 wrote format 1 without its number: shards have a SHA-256 and
# no CRC-32C.
LISTING_FORMAT = 2
# Format of a manifest without `shards`, which are in SHARDS. Releases that read only format 2 refuse it by its number.
FORMAT = 3
# Grows with additions that readers of earlier releases ignore. 1: paths are relative, see `PublishedPaths`.
MINOR = 1
# Format of `changes.json`. Releases before 1.0 wrote no number, and the path of the version in `compared_with`.
CHANGES_FORMAT = {"format": 1, "minor": 1}
# Most shards that a manifest lists: reading them takes a quarter of a second and 18 MB, and 10,000 shards of the usual
# size have 1.5 TB, so few datasets need a release that reads format 3.
MOST_LISTED_SHARDS = 10_000


def lists_shards(count: int) -> bool:
    """Whether the manifest of a dataset with this many shards lists them; otherwise they have a file of their own."""
    return count <= MOST_LISTED_SHARDS


@dataclasses.dataclass(frozen=True)
class Shard:
    """A finished shard.

    Attributes:
      split: split of the shard.
      number: number of the shard, from 0.
      of: number of shards of the split.
      file: file name.
      records: number of records.
      bytes: size of the file.
      crc32c: CRC-32C of the file, 8 hex digits; None in format 1.
      index: name of the index file relative to the dataset, or None.
      index_sha256: hex digest of the index file, or None.
      index_bytes: size of the index file; None without one, and in manifests of earlier versions of beam-tfrecords.
      first_key: key of the first record; None without records or index.
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
    index_bytes: int | None = None
    sha256: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Converts the shard to plain values, for the manifest."""
        values = dataclasses.asdict(self)
        del values["sha256"]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Shard:
        """Reverses `to_json`, for every format; ignores fields that later versions have added."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{"crc32c": None, **{name: value for name, value in values.items() if name in names}})


# Resize modes that give every image the requested height and width.
_FIXED_MODES = ("exact", "pad", "crop")
# Settings that readers depend on -> values that builds have written.
_KNOWN: Mapping[str, tuple[Any, ...]] = {
    "image_encoding": ("jpeg", "png", "webp", "raw", "keep"),
    "bit_depth": (8, 16),
    "mask_bit_depth": (8, 16),
    "array_type": (None, "uint8", "uint16", "float32"),
    "upscale": (True, False),
    "compression": ("none", "gzip"),
}


@dataclasses.dataclass(frozen=True)
class StoredImages:
    """How the images of a dataset are stored.

    Attributes:
      encoding: "jpeg", "png", "webp", "raw" or "keep".
      channels: 1, 3 or 4, of arrays any number; None if each image has the channels of its file.
      size: (height, width) of every image in pixels; None if they differ.
      bit_depth: bits per channel, 8 or 16.
      mask_bit_depth: bits of a mask, 8 or 16.
      array_type: type of the numbers of arrays: "uint8", "uint16" or "float32"; None for images.
    """

    encoding: str
    channels: int | None
    size: tuple[int, int] | None
    bit_depth: int = 8
    mask_bit_depth: int = 8
    array_type: str | None = None

    @property
    def dtype(self) -> str:
        """NumPy's name of the stored type of raw pixels."""
        return {"uint16": "<u2", "float32": "<f4"}.get(self.array_type or "", "|u1")

    @classmethod
    def of(cls, spec: Mapping[str, Any], array_size: Sequence[int] | None = None) -> StoredImages:
        """Reads the settings that a manifest records.

        Args:
          spec: the settings.
          array_size: (height, width) of every array, which is in the manifest, too; None if they differ.

        Raises:
          ValueError: a setting has a value that no build writes.
        """
        for name, known in _KNOWN.items():
            # In Python, `True` and `1.0` equal 1.
            if name in spec and not any(type(value) is type(spec[name]) and value == spec[name] for value in known):
                raise ValueError(f"spec.{name} is {ascii(spec[name])[:60]}; expected one of {known}")
        channels, array_type = spec["channels"], spec.get("array_type")
        is_number = type(channels) is int and (channels in (1, 3, 4) or (array_type and channels > 0))
        if not (is_number or channels == "keep"):
            raise ValueError(f"spec.channels is {ascii(channels)[:60]}; expected 1, 3, 4 or keep")
        size = spec["image_size"]
        is_fixed = size is not None and spec["resize_mode"] in _FIXED_MODES and spec["upscale"]
        height, width = map(int, size.split("x")) if is_fixed else (0, 0)
        stored = (height, width) if is_fixed else None
        return cls(
            spec["image_encoding"],
            None if channels == "keep" else channels,
            (array_size[0], array_size[1]) if array_size else stored,
            # Earlier versions of beam-tfrecords supported only 8 bits.
            spec.get("bit_depth", 8),
            spec.get("mask_bit_depth", 8),
            array_type,
        )


_COUNTS = mapped(count)
_DUPLICATES = ("groups", "images", "groups_across_splits", "groups_with_conflicting_labels")
_SHARD = {
    "split": text, "number": count, "of": count, "file": text, "records": count, "bytes": count,
    "index": optional(text), "index_sha256": optional(text),
}  # fmt: skip
_SPLIT = {
    **dict.fromkeys(("listed", "shards", "records", "failures", "dropped_duplicates", "bytes"), count),
    "classes": _COUNTS,
}


def manifest_check(number: int) -> Check:
    """Returns the check of a manifest of this format; the first format is 1."""
    digest = "crc32c" if number > 1 else "sha256"
    shard = fields({**_SHARD, digest: text}, {"first_key": optional(text), "index_bytes": optional(count)})
    return fields(
        {
            **dict.fromkeys(("listed", "records", "failures", "dropped_duplicates"), count),
            "name": text,
            "class_names": listed(text),
            "duplicates": fields(dict.fromkeys(_DUPLICATES, count)),
            "splits": mapped(fields(_SPLIT, {"heads": mapped(_COUNTS)})),
            **({"shards": listed(shard)} if number <= LISTING_FORMAT else {}),
            "files": mapped(text) if number <= LISTING_FORMAT else fields({SHARDS: text}),
            "spec": mapped(plain),
            "failure_reasons": _COUNTS,
            "reuse": fields(dict.fromkeys(("copied", "reserialized", "converted"), count)),
            "skipped": mapped(fields({"files": count, "examples": listed(text)})),
        },
        {
            **dict.fromkeys(("filtered", "merged_rows", "replaced_members"), count),
            **dict.fromkeys(("kept_turned", "damaged_containers"), count),
            **dict.fromkeys(("stored_as_png", "dim_images", "objects", "near_duplicates"), _COUNTS),
            **dict.fromkeys(("source_bytes", "median_pixels"), optional(count)),
            "notes": listed(text),
            "read_with": optional(mapped(text)),
            "input_fingerprint": optional(text),
            "versions": mapped(text),
            "sizes": _COUNTS,
            "minor": count,
            "array_size": optional(listed(count)),
            "heads": mapped(listed(text)),
        },
    )


SUCCESS_CHECK = fields({"manifest_sha256": text}, {"version": text, "location": text})
_SAMPLES = fields({"samples": count}, {"keys": listed(fields({"key": text})), "by_split_and_class": mapped(_COUNTS)})
CHANGES_CHECK = fields(
    {"compared_with": optional(text)},
    {
        **dict.fromkeys(CHANGES_FORMAT, count),
        "note": text,
        "notes": listed(text),
        "versions": listed(text),
        "nothing_reused_because": optional(text),
        "changes": mapped(_SAMPLES),
        "guards": listed(
            fields({"guard": text, "what": text, "limit": text, "old": plain, "new": plain, "holds": plain})
        ),
    },
)
# Lines of the lists beside the manifest.
FAILURE_CHECK = fields({"key": text, "reason": text, "detail": text}, {"uri": optional(text), "split": optional(text)})
GROUP_CHECK = fields({"images": listed(fields({"key": text, "split": text}))}, {"kind": text})
