"""The content of a manifest and of the lists beside it, with checks of their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.dataset.files import SHARDS
from beam_tfrecords.dataset.schema import count, fields, listed, mapped, optional, plain, text
from beam_tfrecords.geometry.sizes import FIXED_MODES

# Formats of the manifest and of `changes.json`. The minor number grows with additions that readers of earlier releases
# ignore.
MANIFEST_FORMAT = {"format": 1, "minor": 0}
CHANGES_FORMAT = {"format": 1, "minor": 0}
# Most shards that a manifest lists: reading them takes a quarter of a second and 18 MB. More are in SHARDS.
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
      crc32c: CRC-32C of the file, 8 hex digits.
      index: name of the index file relative to the dataset, or None.
      index_sha256: hex digest of the index file, or None.
      first_key: key of the first record; None without records or index.
      index_bytes: size of the index file, or None.
    """

    split: str
    number: int
    of: int
    file: str
    records: int
    bytes: int
    crc32c: str
    index: str | None
    index_sha256: str | None
    first_key: str | None = None
    index_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Converts the shard to plain values, for the manifest."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Shard:
        """Reverses `to_json`; ignores fields that later versions have added."""
        return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)})


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
        channels, array_type = spec["channels"], spec["array_type"]
        is_number = type(channels) is int and (channels in (1, 3, 4) or (array_type and channels > 0))
        if not (is_number or channels == "keep"):
            raise ValueError(f"spec.channels is {ascii(channels)[:60]}; expected 1, 3, 4 or keep")
        size = spec["image_size"]
        is_fixed = size is not None and spec["resize_mode"] in FIXED_MODES and spec["upscale"]
        height, width = map(int, size.split("x")) if is_fixed else (0, 0)
        stored = (height, width) if is_fixed else None
        return cls(
            spec["image_encoding"],
            None if channels == "keep" else channels,
            (array_size[0], array_size[1]) if array_size else stored,
            spec["bit_depth"],
            spec["mask_bit_depth"],
            array_type,
        )


_COUNTS = mapped(count)
_DUPLICATES = ("groups", "images", "groups_across_splits", "groups_with_conflicting_labels")
_SHARD = {
    "split": text, "number": count, "of": count, "file": text, "records": count, "bytes": count, "crc32c": text,
    "index": text, "index_sha256": text, "first_key": optional(text), "index_bytes": count,
}  # fmt: skip
_SPLIT = {
    **dict.fromkeys(("listed", "shards", "records", "failures", "filtered", "dropped_duplicates", "bytes"), count),
    "classes": _COUNTS,
}
_ENTRY = {**dict.fromkeys(("fate", "file", "field", "detail", "remedy"), text), "count": count}
# The content of `manifest.json`; docs/output.md explains it.
_MANIFEST = fields(
    {
        **dict.fromkeys(("listed", "records", "failures", "filtered", "dropped_duplicates"), count),
        **dict.fromkeys(("merged_rows", "replaced_members", "kept_turned"), count),
        **dict.fromkeys(("failure_reasons", "stored_as_png", "dim_images", "objects", "near_duplicates"), _COUNTS),
        **dict.fromkeys((*MANIFEST_FORMAT, "damaged_containers", "source_bytes"), count),
        "name": text,
        "class_names": listed(text),
        "duplicates": fields(dict.fromkeys(_DUPLICATES, count)),
        "median_pixels": optional(count),
        "splits": mapped(fields(_SPLIT, {"heads": mapped(_COUNTS)})),
        "files": mapped(text),
        "sizes": _COUNTS,
        "spec": mapped(plain),
        "versions": mapped(text),
        "reuse": fields(dict.fromkeys(("copied", "reserialized", "converted"), count)),
        "skipped": mapped(fields({"files": count, "examples": listed(text)})),
        "notes": listed(text),
        "read_with": optional(mapped(text)),
        "input_fingerprint": text,
    },
    {
        "shards": listed(fields(_SHARD)),
        "array_size": optional(listed(count)),
        "heads": mapped(listed(text)),
        "unwritten_classes": listed(text),
        "ledger": listed(fields(_ENTRY)),
    },
)


def check_manifest(manifest: Mapping[str, Any]) -> None:
    """Checks the fields of a manifest.

    Raises:
      ValueError: a field is missing or has an unexpected value, or there is no list of shards.
    """
    _MANIFEST(manifest, "it")
    if "shards" not in manifest and SHARDS not in manifest["files"]:
        raise ValueError(f"it has neither shards nor {SHARDS}")


SUCCESS_CHECK = fields({"manifest_sha256": text}, {"version": text, "location": text})
_SAMPLES = fields({"samples": count}, {"keys": listed(fields({"key": text})), "by_split_and_class": mapped(_COUNTS)})
CHANGES_CHECK = fields(
    {
        **dict.fromkeys(CHANGES_FORMAT, count),
        "compared_with": optional(text),
        "notes": listed(text),
        "versions": listed(text),
    },
    {
        "note": text,
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
