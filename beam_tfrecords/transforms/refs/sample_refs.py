"""References to samples, small and cheap to shuffle, and the locators that say where their bytes are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgpack

from beam_tfrecords.errors import SampleError
from beam_tfrecords.storage.paths import shown
from beam_tfrecords.transforms.objects.objects import Objects

# What a cell of a table can hold; a list where one sample has several values.
Scalar: TypeAlias = "str | int | float | bool | bytes | None"
Value: TypeAlias = "Scalar | list[Scalar]"

# (split, number of the block)
BlockKey: TypeAlias = "tuple[str, int]"


@dataclasses.dataclass(frozen=True)
class File:
    """A whole file.

    Attributes:
      uri: the file.
    """

    uri: str
    version: str = ""

    @property
    def name(self) -> str:
        """The name that people see."""
        return shown(self.uri)


@dataclasses.dataclass(frozen=True)
class Range:
    """A byte range of a file: a tar member, a record of a TFRecord file.

    Attributes:
      name: the name that people see, such as `photos.tar#cat/1.jpg`.
    """

    uri: str
    offset: int
    length: int
    name: str
    version: str = ""


@dataclasses.dataclass(frozen=True)
class ZipMember(Range):
    """A member of a zip archive: the byte range begins with its local header, which says where its content is.

    So an archive is listed from its directory alone. The range may end behind the content.

    Attributes:
      stored: bytes of the content in the archive.
      size: bytes of the content.
      crc: CRC-32 of the content.
      is_deflated: whether the content is a raw DEFLATE stream (RFC 1951).
    """

    stored: int = 0
    size: int = 0
    crc: int = 0
    is_deflated: bool = False


@dataclasses.dataclass(frozen=True)
class PixelRange(Range):
    """A byte range of an array, which holds the pixels of an image and nothing that describes them.

    Attributes:
      shape: lengths of the axes.
      axes: what they are, slowest first: "HW", "WH", "HWC" or "CHW"; of 1, 3 or 4 channels.
      dtype: of a number, as NumPy writes it: "|u1", "<u2" or ">u2".
    """

    shape: tuple[int, ...] = ()
    axes: str = "HW"
    dtype: str = "|u1"


@dataclasses.dataclass(frozen=True)
class RecordRange(Range):
    """The example of a record of a dataset of ours, which holds all images of the sample; the name is its `uri` there.

    Attributes:
      index_columns: index column -> value, without nulls.
      is_raw: whether the images are pixels.
    """

    index_columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_raw: bool = False


Locator: TypeAlias = "File | Range | ZipMember | PixelRange | RecordRange"
# References are packed by their places here.
_LOCATORS = (Range, ZipMember, File, PixelRange, RecordRange)

# A new one for each reference would take as long as packing it; the interpreter's lock is held while it packs.
_pack: Callable[[Any], bytes] = msgpack.Packer().pack
# The name of the only image of a sample, and that of its mask.
IMAGE, MASK = "image", "mask"


def one_image(locator: Locator | None, mask: Locator | None = None) -> Mapping[str, Locator]:
    """The images of a sample that has one, perhaps with a mask, or none."""
    return {name: one for name, one in ((IMAGE, locator), (MASK, mask)) if one is not None}


def _pack_locator(locator: Locator) -> tuple[Any, ...]:
    kind = _LOCATORS.index(type(locator))
    if isinstance(locator, File):
        return kind, locator.uri, locator.version
    packed = kind, locator.uri, locator.offset, locator.length, locator.name, locator.version
    if isinstance(locator, ZipMember):
        return *packed, locator.stored, locator.size, locator.crc, locator.is_deflated
    if isinstance(locator, PixelRange):
        return *packed, locator.shape, locator.axes, locator.dtype
    if isinstance(locator, RecordRange):
        return *packed, dict(locator.index_columns), locator.is_raw
    return packed


def _unpack_locator(kind: int, *values: Any) -> Locator:
    if _LOCATORS[kind] is PixelRange:
        uri, offset, length, name, version, shape, axes, dtype = values
        return PixelRange(uri, offset, length, name, version, tuple(shape), axes, dtype)
    return _LOCATORS[kind](*values)


def describe_locator(locator: Locator | None) -> dict[str, Any] | None:
    """Where a part of a file is, besides its name, as plain values; None of a whole file, or of a temporary copy."""
    if locator is None or isinstance(locator, File) or not locator.name.startswith(locator.uri):
        return None
    values = dataclasses.asdict(locator)
    # Another copy of the same input has another version.
    return {field: value for field, value in values.items() if field not in ("name", "version")}


def find_locator(values: Mapping[str, Any], *, name: str) -> Range:
    """The reverse of `describe_locator`, of any version."""
    if "shape" in values:
        return PixelRange(**{**values, "shape": tuple(values["shape"])}, name=name)
    return (ZipMember if "crc" in values else Range)(**values, name=name)


@dataclasses.dataclass(frozen=True)
class SampleRef:
    """A reference to one sample: everything about it except its image bytes.

    Attributes:
      key: stable name of the sample: path relative to the input root, or the row's id. Order and split
        depend on it alone.
      images: name -> where the bytes of the image are: `IMAGE`, or those of several; and `MASK`, which belongs to the
        first. The first is the one that the index describes. Those of a list are `frames[0]`, `frames[1]` and so on.
        Empty for a row without an image.
      size: bytes of the file of the first image, or 0 if the source does not say.
      fingerprint: changes when the file of an image does (size and modification time, or an etag).
      label: as the source has it: a class name, a class index, a list of either, or None.
      split: as the source has it (the name of a folder, the value of a column), or None.
      columns: the table's other cells that the layout asks for, by column name.
      failure: (reason, detail) if the source already rejects the sample, else None. The reason is a value
        of `errors.FailureReason`.
      group: samples of one group get the same split where splits are fractions. Not packed: the listing has
        assigned the splits.
      objects: the annotated objects of the image; None if the source has no such annotations.
    """

    key: str
    images: Mapping[str, Locator] = dataclasses.field(default_factory=dict)
    size: int = 0
    fingerprint: str = ""
    label: Value = None
    split: str | None = None
    columns: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    failure: tuple[str, str] | None = None
    group: str | None = dataclasses.field(default=None, compare=False)
    objects: Objects | None = None

    @property
    def first_image(self) -> str | None:
        """The name of the first image; None for a row without an image."""
        return next(iter(self.images), None)

    @property
    def locator(self) -> Locator | None:
        """Where the bytes of the first image are; None for a row without an image."""
        return next(iter(self.images.values()), None)

    @property
    def uri(self) -> str | None:
        """The name of the first image that people see; None for a row without an image."""
        return self.locator.name if self.locator else None

    @property
    def labels(self) -> Sequence[Scalar]:
        """Those of its objects, or else its own; None among them where it lacks one."""
        if self.objects is not None:
            return self.objects.labels
        return self.label if isinstance(self.label, list) else (self.label,)

    def attribute_error(self, error: SampleError, name: str) -> SampleError:
        """Returns the failure of one of its images, with the name of the image if the sample has others."""
        return error if name == IMAGE and self.images.keys() <= {IMAGE, MASK} else error.about(name)

    def plain_images(self) -> dict[str, tuple[Any, ...]]:
        """Where the images are, as values for msgpack."""
        return {name: _pack_locator(locator) for name, locator in self.images.items()} if self.images else {}

    @classmethod
    def of_plain(cls, plain: Sequence[Any], group: str | None = None) -> SampleRef:
        """The reference of all its values as they are unpacked."""
        key, split, places, size, fingerprint, label, columns, failure, objects = plain
        return _make_ref(
            {
                "key": key,
                "images": {name: _unpack_locator(*place) for name, place in places.items()} if places else places,
                "size": size,
                "fingerprint": fingerprint,
                "label": label,
                "split": split,
                "columns": columns,
                "failure": tuple(failure) if failure else None,
                "group": group,
                "objects": Objects.unpack(objects) if objects else None,
            }
        )

    def pack(self) -> bytes:
        """The reference as bytes that decide which of those with one key is the first."""
        packed: bytes = msgpack.packb(
            (
                self.key,
                self.split,
                self.plain_images(),
                self.size,
                self.fingerprint,
                self.label,
                dict(self.columns),
                self.failure,
                *([self.objects.pack()] if self.objects is not None else ()),
            )
        )
        return packed


def pack_identity(
    key: str,
    split: str | None,
    size: int,
    fingerprint: str,
    label: Value,
    columns: Mapping[str, Value],
    failure: Sequence[str] | None,
    images: Iterable[str],
    objects: Sequence[Any] | None,
) -> bytes:
    """What makes a sample another one when it changes: everything except where its bytes are.

    Args:
      images: the names of its images.
      objects: as they are packed.
    """
    values = (key, split, size, fingerprint, label, columns, failure)
    # A name that every image has says nothing, and earlier versions had none.
    names = [name for name in images if name != IMAGE] if images else []
    if objects is not None:
        return _pack((*values, names, objects))
    return _pack((*values, names) if names else values)


def plain_files(uris: Iterable[str], versions: Iterable[str]) -> list[dict[str, tuple[Any, ...]]]:
    """`SampleRef.plain_images` of samples whose only image is a whole file."""
    kind = _LOCATORS.index(File)
    return [{IMAGE: (kind, uri, version)} for uri, version in zip(uris, versions, strict=True)]


def pack_places(images: Mapping[str, Sequence[Any]]) -> bytes:
    """Where images are, as people see it: a size and a time say nothing of a file elsewhere.

    Args:
      images: as `SampleRef.plain_images`.
    """
    return _pack(list(map(name_of_place, images.values()))) if images else b""


def name_of_place(place: Sequence[Any]) -> str:
    """The name that people see of a locator as it is packed."""
    name: str = place[4] if len(place) > 3 else shown(place[1])
    return name


def file_of_place(place: Sequence[Any]) -> str:
    """The file that a locator as it is packed is read from."""
    file: str = place[1]
    return file


def _make_ref(values: dict[str, Any]) -> SampleRef:
    """A reference of all its values; the constructor of a frozen dataclass takes three times as long."""
    ref = object.__new__(SampleRef)
    object.__setattr__(ref, "__dict__", values)
    return ref
