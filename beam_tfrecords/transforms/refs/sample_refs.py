"""References to samples, which are small and cheap to shuffle, and locators of their bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgpack

from beam_tfrecords.errors import SampleError
from beam_tfrecords.features.fields import BESIDE, FIELDS, MASK_FIELD
from beam_tfrecords.storage.paths import shown
from beam_tfrecords.transforms.objects.objects import Objects

# Value of a table cell; a list if one sample has several values.
Scalar: TypeAlias = "str | int | float | bool | bytes | None"
Value: TypeAlias = "Scalar | list[Scalar]"

# (split, number of the block)
BlockKey: TypeAlias = "tuple[str, int]"


@dataclasses.dataclass(frozen=True)
class File:
    """A whole file, or a member of an archive.

    Attributes:
      uri: the file.
      version: as `storage.FileEntry.version`; says the place of a member.
    """

    uri: str
    version: str = ""

    @property
    def name(self) -> str:
        """Name for display."""
        return shown(self.uri)


@dataclasses.dataclass(frozen=True)
class Range:
    """A byte range of a file, such as a record of a TFRecord file.

    Attributes:
      name: name for display, such as `train.tfrecord#000000000001`.
    """

    uri: str
    offset: int
    length: int
    name: str
    version: str = ""


@dataclasses.dataclass(frozen=True)
class PixelRange(Range):
    """A byte range of an array that holds the raw pixels of an image.

    Attributes:
      shape: lengths of the axes.
      axes: meaning of the axes, slowest first: "HW", "WH", "HWC" or "CHW"; "" for an array of three axes in an unknown
        order.
      dtype: NumPy type of the values, such as "|u1", ">u2" or "<f4".
      limits: the values of black and white; None for 0 and the largest value of the type, and for arrays.
    """

    shape: tuple[int, ...] = ()
    axes: str = "HW"
    dtype: str = "|u1"
    limits: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class RecordRange(Range):
    """The example in a record of a beam-tfrecords dataset, with all images of the sample; `name` is the record's `uri`.

    Attributes:
      index_columns: index column -> value, without nulls.
      raw_type: NumPy's name of the type of images that are stored as raw pixels, such as "|u1"; "" for files.
    """

    index_columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    raw_type: str = ""


Locator: TypeAlias = "File | Range | PixelRange | RecordRange"
# Packed locators contain these numbers, so they must not change.
_LOCATORS: Mapping[int, type[Locator]] = {0: Range, 2: File, 3: PixelRange, 4: RecordRange}
_NUMBERS = {kind: number for number, kind in _LOCATORS.items()}

# Creating a packer for each reference would take as long as packing. Sharing one is safe: packing holds the GIL.
_pack: Callable[[Any], bytes] = msgpack.Packer().pack
# Name of the only image of a sample, and name of its mask.
IMAGE, MASK = "image", FIELDS[MASK_FIELD].beside
# Name of a whole record in `SampleRef.images`, if it is stored as it is; the fingerprint is then the hash of its bytes.
RECORD = "record"


def object_mask(name: str) -> str:
    """Returns the name in `SampleRef.images` of a file with masks of objects."""
    return f"{MASK}/of/{name}"


def is_object_mask(name: str) -> bool:
    """Whether an image of a sample has masks of its objects."""
    return name.startswith(object_mask(""))


def is_mask(name: str) -> bool:
    """Whether an image of a sample is a mask of another: of the image, of a class or of an object."""
    return name.partition("/")[0] in BESIDE


def one_image(locator: Locator | None, mask: Locator | None = None) -> Mapping[str, Locator]:
    """Returns `SampleRef.images` of a sample with at most one image and one mask."""
    return {name: one for name, one in ((IMAGE, locator), (MASK, mask)) if one is not None}


def _pack_locator(locator: Locator) -> tuple[Any, ...]:
    kind = _NUMBERS[type(locator)]
    if isinstance(locator, File):
        return kind, locator.uri, locator.version
    packed = kind, locator.uri, locator.offset, locator.length, locator.name, locator.version
    if isinstance(locator, PixelRange):
        return *packed, locator.shape, locator.axes, locator.dtype, locator.limits
    if isinstance(locator, RecordRange):
        return *packed, dict(locator.index_columns), locator.raw_type
    return packed


def _unpack_locator(kind: int, *values: Any) -> Locator:
    if _LOCATORS[kind] is PixelRange:
        uri, offset, length, name, version, shape, axes, dtype, limits = values
        return PixelRange(uri, offset, length, name, version, tuple(shape), axes, dtype, limits and tuple(limits))
    return _LOCATORS[kind](*values)


@dataclasses.dataclass(frozen=True)
class SampleRef:
    """A reference to one sample: everything about it except its image bytes.

    Attributes:
      key: stable name of the sample: path relative to the input root, or the row's id. Order and split
        depend only on it.
      images: image name -> locator of its bytes. A single image is named `IMAGE`, the images of a list `frames[0]`,
        `frames[1]` and so on. `MASK`, or a mask for each class as `mask/NUMBER/CLASS`, or files with the masks of
        objects (`object_mask`) belong to the first image, which the index describes. Empty for a row without an image.
      size: bytes of the file of the first image; 0 if the source does not give it.
      fingerprint: changes with the file of an image: size and modification time, or an etag.
      label: label in the source: a class name, a class index, a list of either, or None.
      split: split in the source, such as the name of a folder or the value of a column; or None.
      columns: column name -> value, for other table cells that the layout needs.
      failure: (reason, detail) if the source already rejects the sample, else None. The reason is a value
        of `errors.FailureReason`.
      group: samples of one group get the same split if splits are fractions. Not packed, because the listing
        has already assigned the splits.
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
        """Name of the first image; None for a row without an image."""
        return next(iter(self.images), None)

    @property
    def locator(self) -> Locator | None:
        """Locator of the first image; None for a row without an image."""
        return next(iter(self.images.values()), None)

    @property
    def uri(self) -> str | None:
        """Display name of the first image; None for a row without an image."""
        return self.locator.name if self.locator else None

    @property
    def labels(self) -> Sequence[Scalar]:
        """Labels of the objects, or of the sample if it has no object annotations. A missing label is None."""
        if self.objects is not None:
            return self.objects.labels
        return self.label if isinstance(self.label, list) else (self.label,)

    def attribute_error(self, error: SampleError, name: str) -> SampleError:
        """Returns the failure of one image, with the name of the image if the sample has several."""
        is_only = name == IMAGE and all(one == IMAGE or is_mask(one) for one in self.images)
        return error if is_only else error.about(name)

    def plain_images(self) -> dict[str, tuple[Any, ...]]:
        """Returns image name -> packed locator, as plain values for msgpack."""
        return {name: _pack_locator(locator) for name, locator in self.images.items()} if self.images else {}

    @classmethod
    def of_plain(cls, plain: Sequence[Any], group: str | None = None) -> SampleRef:
        """Makes a reference from its unpacked values."""
        key, split, places, size, fingerprint, label, columns, failure, objects = plain
        # The constructor of a frozen dataclass takes three times as long.
        ref = object.__new__(cls)
        ref.__dict__.update(
            key=key,
            images={name: _unpack_locator(*place) for name, place in places.items()} if places else places,
            size=size,
            fingerprint=fingerprint,
            label=label,
            split=split,
            columns=columns,
            failure=tuple(failure) if failure else None,
            group=group,
            objects=Objects.unpack(objects) if objects else None,
        )
        return ref

    def pack(self) -> bytes:
        """Packs the reference to bytes. The order of these bytes decides which reference with the same key is first."""
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
    """Packs the identity of a sample: everything except the locations of its bytes.

    Args:
      images: names of its images.
      objects: packed objects.
    """
    values = (key, split, size, fingerprint, label, columns, failure)
    # The default name carries no information.
    names = [name for name in images if name != IMAGE] if images else []
    if objects is not None:
        return _pack((*values, names, objects))
    return _pack((*values, names) if names else values)


def plain_files(uris: Iterable[str], versions: Iterable[str]) -> list[dict[str, tuple[Any, ...]]]:
    """Returns `SampleRef.plain_images` for samples whose only image is a whole file."""
    kind = _NUMBERS[File]
    return [{IMAGE: (kind, uri, version)} for uri, version in zip(uris, versions, strict=True)]


def name_of_place(place: Sequence[Any]) -> str:
    """Returns the display name of a packed locator."""
    name: str = place[4] if len(place) > 3 else shown(place[1])
    return name


def file_of_place(place: Sequence[Any]) -> str:
    """Returns the file of a packed locator."""
    file: str = place[1]
    return file
