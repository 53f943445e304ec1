"""The values that flow between the stages: small, immutable, and cheap to shuffle."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgpack

# What a cell of a manifest can hold; a list where one sample has several values.
Scalar: TypeAlias = "str | int | float | bool | bytes | None"
Value: TypeAlias = "Scalar | list[Scalar]"


@dataclasses.dataclass(frozen=True)
class SampleRef:
    """A reference to one sample: everything about it but its image's bytes.

    Attributes:
      key: path relative to the input's root, or the row's id. Order and split hang on it alone.
      uri: where the image's bytes are; None for a row without an image.
      size: bytes of the source file, or 0 if the source does not say.
      fingerprint: changes when the source file does (size and modification time, or an etag).
      label: as the source has it: a class name, a class index, a list of either, or None.
      split: as the source has it (a folder's or a column's value), or None.
      columns: the manifest's other cells that the layout asks for, by column name.
      failure: (reason, detail) if the source itself already refuses the sample, else None. The
        reason is a value of `errors.FailureReason`.
    """

    key: str
    uri: str | None
    size: int = 0
    fingerprint: str = ""
    label: Value = None
    split: str | None = None
    columns: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    failure: tuple[str, str] | None = None

    def with_split(self, split: str | None) -> SampleRef:
        """The same sample in another split."""
        # `dataclasses.replace` takes three times as long, and this is done for every sample.
        return SampleRef(self.key, self.uri, self.size, self.fingerprint, self.label, split, self.columns, self.failure)

    def pack(self) -> bytes:
        """The reference as a few hundred bytes, for the listing and for the shuffle."""
        return msgpack.packb(
            (
                self.key,
                self.uri,
                self.size,
                self.fingerprint,
                self.label,
                self.split,
                dict(self.columns),
                self.failure,
            )
        )

    @classmethod
    def unpack(cls, packed: bytes) -> SampleRef:
        """The reverse of `pack`."""
        key, uri, size, fingerprint, label, split, columns, failure = msgpack.unpackb(packed)
        return cls(key, uri, size, fingerprint, label, split, columns, tuple(failure) if failure else None)


def unpack_place(packed: bytes) -> tuple[str, str | None]:
    """Key and split of a packed ref, without the rest of it."""
    values = msgpack.unpackb(packed)
    return values[0], values[5]


def pack_refs(packed: list[bytes]) -> bytes:
    """Several packed refs as one value; what they have in common, such as their folders, takes its room once."""
    return zlib.compress(msgpack.packb(packed), level=1)


def part_refs(together: bytes) -> list[bytes]:
    """The packed refs that `pack_refs` put together."""
    packed: list[bytes] = msgpack.unpackb(zlib.decompress(together))
    return packed


def unpack_refs(together: bytes) -> list[SampleRef]:
    """The refs that `pack_refs` put together, unpacked."""
    return [SampleRef.unpack(packed) for packed in part_refs(together)]


@dataclasses.dataclass(frozen=True)
class ConvertedSample:
    """One sample, ready to be written.

    Attributes:
      example: the serialized example.
      class_names: names of its classes, none if it has no label.
      content_hash: hex BLAKE3 of the source's bytes; "" for a row without an image.
      height: pixels of the stored image, or None.
      width: pixels of the stored image, or None.
    """

    example: bytes
    class_names: tuple[str, ...]
    content_hash: str
    height: int | None
    width: int | None


@dataclasses.dataclass(frozen=True)
class Part:
    """A finished part file.

    Attributes:
      split: split of its records.
      block: block that it came from; parts of a split are ordered by (block, number).
      number: of the part in its block, from 0.
      uri: the file.
      bytes: size of the file.
      stream_bytes: size of its uncompressed content.
      records: number of records.
      crc32c: CRC-32C of the file.
      index: its index file, or None.
    """

    split: str
    block: int
    number: int
    uri: str
    bytes: int
    stream_bytes: int
    records: int
    crc32c: int
    index: str | None

    def to_json(self) -> dict[str, Any]:
        """As plain values; the reverse is `Part(**values)`."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Shard:
    """A finished shard.

    Attributes:
      split: its split.
      number: its number, from 0.
      of: number of shards of the split.
      file: its file's name.
      records: number of records.
      bytes: size of the file.
      sha256: hex digest of the file.
      index: name of its index file relative to the dataset, or None.
      index_sha256: hex digest of the index file, or None.
    """

    split: str
    number: int
    of: int
    file: str
    records: int
    bytes: int
    sha256: str
    index: str | None
    index_sha256: str | None

    def to_json(self) -> dict[str, Any]:
        """As plain values; the reverse is `Shard(**values)`."""
        return dataclasses.asdict(self)
