"""Converts the samples of a user function to references."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.mapping.image_file import ImageFile
from beam_tfrecords.transforms.mapping.open_sample import find_listed, parts_of, values_of
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.mapping.sample_objects import to_source
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, File, Locator, PixelRange, Range, SampleRef
from beam_tfrecords.transforms.sources.description import BOX, STRUCTURE, Uses
from beam_tfrecords.transforms.sources.image_files import join_fingerprints, look, of_path
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import is_utf8, printable
from beam_tfrecords.transforms.sources.partition import StagingFiles
from beam_tfrecords.transforms.sources.path_rule import resolve
from beam_tfrecords.transforms.sources.tally import Tally


@dataclasses.dataclass(frozen=True)
class SampleReader:
    """Converts samples to references: refers to files in place, and copies bytes and arrays to staging files.

    Attributes:
      name: name of the function, as `module:function`.
      root: folder that relative paths start from.
      columns: columns to keep; None for all columns of a sample.
      group_column: as in the setting.
      is_usual: whether the request names no layout, so that examples have one image and a label.
    """

    name: str
    root: str
    columns: Collection[str] | None
    group_column: str | None
    is_usual: bool = False

    def read(self, sample: Any, staging: StagingFiles, tally: Tally) -> SampleRef:
        """Returns the reference of a sample; a rejected one if a value cannot be stored or an image does not exist.

        Args:
          sample: the sample.
          staging: receives bytes and arrays.
          tally: counts the fields of the sample.

        Raises:
          BuildError: the object is not a `Sample`, or a service fault.
        """
        if not isinstance(sample, Sample):
            raise BuildError(
                f"{quote_input(self.name)}: it gave {type(sample).__name__} where a beam_tfrecords.Sample is expected"
            )
        for field in _fields_of(sample):
            tally.see_field(self.name, field)
        images: dict[str, Locator] = {}
        key = storage.shown(sample.key)
        try:
            if not is_utf8(key):
                raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, "the key is not valid UTF-8")
            if self.is_usual:
                _check_usual(sample)
            label, columns = values_of(sample, self.columns)
            # Images of listed samples are neither decoded nor copied.
            ref = find_listed(sample) or self._place_parts(sample, key, images, staging)
        except SampleError as error:
            return SampleRef(printable(key), images, split=sample.split, failure=(error.reason.value, error.detail))
        group = sample.columns.get(self.group_column) if self.group_column else None
        group = None if group is None else str(group)
        return dataclasses.replace(ref, key=key, label=label, split=sample.split, columns=columns, group=group)

    def _place_parts(self, sample: Sample, key: str, images: dict[str, Locator], staging: StagingFiles) -> SampleRef:
        """Returns the reference of a sample without its values; adds its images to `images`, until one is missing."""
        objects = to_source(sample.objects)
        sizes, fingerprints = [], []
        for name, part in parts_of(sample).items():
            # Without the function's name, so that records are reused when the function moves.
            images[name], size, fingerprint = self._place(part, f"python#{key}", staging)
            sizes.append(size)
            fingerprints.append(fingerprint)
        return SampleRef(key, images, sizes[0] if sizes else 0, join_fingerprints(fingerprints), objects=objects)

    def _place(self, part: Any, name: str, staging: StagingFiles) -> tuple[Locator, int, str]:
        """Returns the locator, the size in bytes and the fingerprint of an image or mask."""
        if isinstance(part, ImageFile) and isinstance(part.file, str):
            # Paths in the user's code are trusted, like paths in a request.
            uri = resolve(part.file, root=self.root, allow_outside_root=True)
            size, fingerprint, version = look(uri)
            return File(uri, version), size, of_path(fingerprint, uri)
        if isinstance(part, ImageFile):
            data = part.read()
            copied = staging.add([data], size=len(data), name=name)
            return dataclasses.replace(copied, name=name), len(data), content_hash(data)
        pixels = np.asarray(getattr(part, "value", part))
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[..., 0]
        pixels = pixels.astype(pixels.dtype.newbyteorder("<"), copy=False)
        data = pixels.tobytes()
        found: Range = staging.add([data], size=len(data), name=name)
        kind = pixels.dtype.str
        where = found.uri, found.offset, found.length, name, found.version
        place = PixelRange(*where, shape=pixels.shape, axes="HWC"[: pixels.ndim], dtype=kind)
        return place, len(data), f"{content_hash(data)}@{list(pixels.shape)}{kind}"


def _fields_of(sample: Sample) -> Iterator[str]:
    of = sample.parts
    yield from (name for name in ("mask", "objects") if of[name] is not None)
    yield from (name if name == IMAGE else f"images.{name}" for name in of["images"])
    if sample.label is not None:
        yield "label"
    yield from (f"columns.{name}" for name in sample.columns)


def uses_of_samples(columns: Collection[str] | None, images: Collection[str], group: str | None) -> Uses:
    """Returns the fields of samples, and the fields of a layout that store them.

    Args:
      columns: columns to keep; None for all.
      images: names of the images that the layout stores.
      group: column that keeps samples together, or None.
    """
    named = {f"columns.{name}": STRUCTURE for name in [*(columns or ()), *([group] if group else [])]}
    kept = {f"images.{name}": STRUCTURE for name in images}
    return {
        IMAGE: ("image.", f"images.{IMAGE}"),
        "mask": ("mask.",),
        "objects": BOX,
        "label": ("label", "column.label"),
        **named,
        **kept,
    }


def _check_usual(sample: Sample) -> None:
    """Rejects a sample with a mask, objects or several images, which the usual layout would leave out."""
    of = sample.parts
    others = [name for name in ("mask", "objects") if of[name] is not None]
    others += [f"images {', '.join(of['images'])}"] if len(of["images"]) > 1 else []
    if others:
        detail = f"found {' and '.join(others)}, and the request names no `layout` that stores it"
        raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail)
