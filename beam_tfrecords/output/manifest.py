"""The content of a manifest and of the lists beside it, with checks of their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_tfrecords.output.schema import Check, count, fields, listed, mapped, optional, plain, text


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
    "channels": (1, 3, 4, "keep"),
    "bit_depth": (8, 16),
    "mask_bit_depth": (8, 16),
    "upscale": (True, False),
    "compression": ("none", "gzip"),
}


@dataclasses.dataclass(frozen=True)
class StoredImages:
    """How the images of a dataset are stored.

    Attributes:
      encoding: "jpeg", "png", "webp", "raw" or "keep".
      channels: 1, 3 or 4; None if each image has the channels of its file.
      size: (height, width) of every image in pixels; None if they differ.
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
        """Reads the settings that a manifest records.

        Raises:
          ValueError: a setting has a value that no build writes.
        """
        for name, known in _KNOWN.items():
            # In Python, `True` and `1.0` equal 1.
            if name in spec and not any(type(value) is type(spec[name]) and value == spec[name] for value in known):
                raise ValueError(f"spec.{name} is {ascii(spec[name])[:60]}; expected one of {known}")
        size = spec["image_size"]
        is_fixed = size is not None and spec["resize_mode"] in _FIXED_MODES and spec["upscale"]
        height, width = map(int, size.split("x")) if is_fixed else (0, 0)
        channels = spec["channels"]
        return cls(
            spec["image_encoding"],
            None if channels == "keep" else channels,
            (height, width) if is_fixed else None,
            # Earlier versions of beam-tfrecords supported only 8 bits.
            spec.get("bit_depth", 8),
            spec.get("mask_bit_depth", 8),
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
    return fields(
        {
            **dict.fromkeys(("listed", "records", "failures", "dropped_duplicates"), count),
            "name": text,
            "class_names": listed(text),
            "duplicates": fields(dict.fromkeys(_DUPLICATES, count)),
            "splits": mapped(fields(_SPLIT, {"heads": mapped(_COUNTS)})),
            "shards": listed(
                fields(
                    {**_SHARD, "crc32c" if number > 1 else "sha256": text},
                    {"first_key": optional(text), "index_bytes": optional(count)},
                )
            ),
            "files": mapped(text),
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
            "heads": mapped(listed(text)),
        },
    )


SUCCESS_CHECK = fields({"manifest_sha256": text}, {"version": text})
_SAMPLES = fields({"samples": count}, {"keys": listed(fields({"key": text})), "by_split_and_class": mapped(_COUNTS)})
CHANGES_CHECK = fields(
    {"compared_with": optional(text)},
    {
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
