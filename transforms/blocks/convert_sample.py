"""From a reference and the bytes of its image to an example: where the pure steps of one sample meet."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.examples.layouts import COLUMN, NAMED_IMAGE, Layout
from beam_tfrecords.examples.serialize import read_fields, serialize_example, serialize_examples
from beam_tfrecords.index import HASH_DIGITS, seal
from beam_tfrecords.tfrecord import masked_crc32c
from beam_tfrecords.transforms.blocks.place_objects import PlacedObjects, place_objects
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.geometry import Geometry, plan_geometry
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.masks import convert_mask
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.objects import InvalidBoxes, Objects
from beam_tfrecords.transforms.ref_columns import RefColumns
from beam_tfrecords.transforms.refs import MASK, SampleRef, Value

# A new packer for each sample would take as long as packing; the interpreter's lock is held while it packs.
_pack = msgpack.Packer().pack


@dataclasses.dataclass(frozen=True)
class ConvertedSample:
    """One sample, ready to be written.

    Attributes:
      class_names: names of its classes, or of the classes of its objects; empty if it has none.
      facts: what the index says of it: column -> value, see `beam_tfrecords.index`. `sample_hash` changes with
        everything that decides the example, and ends with a checksum of the example; `content_hash` is that of
        `hash_images`; sizes are in pixels. Instead of the columns of quality there may be `quality`, of which they are
        measured.
    """

    example: bytes
    class_names: tuple[str, ...] = ()
    facts: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"sample_hash": "", "content_hash": ""})

    @property
    def label(self) -> str | None:
        """Its class; None if it has none, several, or objects."""
        return self.class_names[0] if len(self.class_names) == 1 and self.facts.get("objects") is None else None


class PreparedSample(NamedTuple):
    """One sample whose images are converted, and which has no example yet.

    Attributes:
      values: of the fields of the layout.
      facts: those of `ConvertedSample`, without `sample_hash`.
      size: bytes of its images.
    """

    labels: list[tuple[int, str]]
    object_labels: list[tuple[int, str]]
    class_names: tuple[str, ...]
    values: Mapping[str, Any]
    facts: Mapping[str, Any]
    size: int


@dataclasses.dataclass(frozen=True)
class ConvertedRows:
    """Several samples without images, ready to be written; the columns are those of `ConvertedSample`.

    Attributes:
      crcs: the masked CRC of each example.
    """

    examples: Sequence[bytes]
    crcs: Sequence[int]
    class_names: Sequence[tuple[str, ...]]
    sample_hashes: Sequence[str]

    @property
    def labels(self) -> list[str | None]:
        """See `ConvertedSample.label`."""
        return [names[0] if len(names) == 1 else None for names in self.class_names]


@dataclasses.dataclass(frozen=True)
class ConvertSample:
    """Converts one sample; pure.

    Attributes:
      settings: a hash of the settings and library versions that decide an example.
      invalid_boxes: what a box without a size, or outside its image, does.
    """

    image: ImageSpec
    layout: Layout
    class_names: ClassNames
    settings: str = ""
    invalid_boxes: InvalidBoxes = InvalidBoxes.REJECT

    def __call__(self, ref: SampleRef, images: Mapping[str, bytes]) -> ConvertedSample:
        """Makes the example of one sample; see `prepare`."""
        return self.finish([ref], [self.prepare(ref, images)])[0]

    def prepare(self, ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
        """Converts the images of one sample.

        Args:
          images: the bytes of its images by their names, as in the reference; empty for a row without one.
        """
        names = [name for name in images if name != MASK] if self.layout.needs_image else []
        # Labels first: they cost nothing, and decoding an image that is rejected anyway does.
        labels = self._resolve_labels(ref)
        object_labels = self._resolve_objects(ref)
        # The index describes the first one.
        converted = {name: self._convert(ref, name, images[name]) for name in self._choose(names)}
        image = converted[names[0]] if names else None
        fields: dict[str, Any] = {
            NAMED_IMAGE + name: [converted[one].data for one in _names_of(name, names)]
            for name in self.layout.image_names
        }
        placed = None
        if image is not None:
            fields["image.encoded"] = fields["image.pixels"] = image.data
            fields["image.format"] = image.format
            fields["image.height"] = image.height
            fields["image.width"] = image.width
            fields["image.channels"] = image.channels
            fields["image.colorspace"] = image.colorspace
            if image.geometry and (self.layout.needs_objects or self.layout.needs_mask):
                geometry = image.geometry.keeping(image.kept_orientation)
                if self.layout.needs_objects:
                    placed = self._place(ref, object_labels, geometry)
                if self.layout.needs_mask:
                    fields["mask.encoded"] = convert_mask(images.get(MASK), geometry, self.image)
        facts = _image_facts(image) if image else {}
        facts["content_hash"] = hash_images(images)
        return PreparedSample(
            labels,
            object_labels,
            _class_names(labels, placed),
            self._values(ref, labels, fields, placed),
            {**facts, **placed.facts} if placed else facts,
            sum([len(one.data) for one in converted.values()]),
        )

    def finish(self, refs: Sequence[SampleRef], prepared: Sequence[PreparedSample]) -> list[ConvertedSample]:
        """Makes the examples of samples: of many at once in a third of the time, but with copies of their images.

        Args:
          refs: as `prepare` was given them.
          prepared: what it has made of them.

        Raises:
          SampleError: why one of them is rejected.
        """
        features = self.layout.features
        if len(refs) == 1 or not features:
            examples = [serialize_example(self.layout, one.values) for one in prepared]
        else:
            columns = [[one.values.get(feature.field) for one in prepared] for feature in features]
            examples = serialize_examples(self.layout, columns)
        return [
            ConvertedSample(
                example,
                one.class_names,
                {**one.facts, "sample_hash": seal(self._hash(ref, one.labels, one.object_labels), crc)},
            )
            for ref, one, example, crc in zip(refs, prepared, examples, map(masked_crc32c, examples), strict=True)
        ]

    def convert_rows(self, refs: RefColumns) -> ConvertedRows:
        """Makes the examples of samples whose images are not needed.

        Raises:
          SampleError: why one of them is rejected.
        """
        labels = self._resolve_each(refs.labels)
        columns: list[Sequence[Any]] = []
        others = None
        for feature in self.layout.features:
            name = feature.column
            if name is not None:
                columns.append(refs.columns.get(name) or [None] * len(refs))
                continue
            others = others or [_other_values(ref, found) for ref, found in zip(refs, labels, strict=True)]
            columns.append([values.get(feature.field) for values in others])
        examples = serialize_examples(self.layout, columns)
        crcs = list(map(masked_crc32c, examples))
        hashes = self._hash_each(refs, labels)
        return ConvertedRows(
            examples,
            crcs,
            [_class_names(found, None) for found in labels] if self.layout.needs_label else [()] * len(refs),
            list(map(seal, hashes, crcs)),
        )

    def _choose(self, names: Sequence[str]) -> Sequence[str]:
        """The images that are converted, of those of a sample."""
        stored = {one for name in self.layout.image_names for one in _names_of(name, names)}
        return [name for name in names if name == names[0] or name in stored]

    def _convert(self, ref: SampleRef, name: str, data: bytes) -> ConvertedImage:
        try:
            return convert_image(data, self.image)
        except SampleError as error:
            raise ref.blame(error, name) from error

    def sample_hash(self, ref: SampleRef) -> str:
        """Changes with everything that decides the example: the sample, the settings, the libraries.

        An index has it with a checksum, from `seal`.
        """
        return self._hash(ref, self._resolve_labels(ref), self._resolve_objects(ref))

    def take_over(self, ref: SampleRef, earlier: ConvertedSample, *, whole: bool) -> ConvertedSample:
        """The sample from what an earlier dataset has of it; nothing is decoded.

        Args:
          whole: whether the example is taken over as it is; else its image is, in an example made anew.
        """
        labels, object_labels = self._resolve_labels(ref), self._resolve_objects(ref)
        fields = read_fields(self.layout, earlier.example, prefix=("image.", "mask."))
        placed = None
        if self.layout.needs_objects:
            facts = earlier.facts
            geometry = plan_geometry(
                facts["source_height"], facts["source_width"], orientation=facts["orientation"], spec=self.image
            )
            placed = self._place(ref, object_labels, geometry.keeping(facts.get("kept_orientation")))
        taken = dataclasses.replace(earlier, class_names=_class_names(labels, placed))
        if whole:
            return taken
        example = serialize_example(self.layout, self._values(ref, labels, fields, placed))
        facts = {**taken.facts, "sample_hash": seal(self._hash(ref, labels, object_labels), masked_crc32c(example))}
        return dataclasses.replace(taken, example=example, facts={**facts, **(placed.facts if placed else {})})

    def _values(
        self,
        ref: SampleRef,
        labels: list[tuple[int, str]],
        fields: dict[str, Any],
        placed: PlacedObjects | None,
    ) -> dict[str, Any]:
        """The values of all fields, from those of the images."""
        values = {**fields, **_other_values(ref, labels)}
        for name, value in ref.columns.items():
            values[COLUMN + name] = value
        if placed:
            values.update(placed.fields)
        return values

    def _hash(self, ref: SampleRef, labels: list[tuple[int, str]], object_labels: list[tuple[int, str]]) -> str:
        return _digest(_pack(self._decisive(ref, labels, object_labels)))

    def _hash_each(self, refs: RefColumns, labels: Sequence[list[tuple[int, str]]]) -> list[str]:
        """`_hash` of samples whose images are not needed, from pieces that take less time to pack than each whole."""
        packer = msgpack.Packer()
        pack, names = packer.pack, sorted(refs.columns)
        pieces: list[Iterable[bytes]] = [
            itertools.repeat(packer.pack_array_header(5) + pack(self.settings)),
            map(pack, refs.keys),
            map(pack, refs.each("fingerprint")),
            map(pack, labels),
            itertools.repeat(packer.pack_array_header(len(names))),
        ]
        for name in names:
            pieces += itertools.repeat(packer.pack_array_header(2) + pack(name)), map(pack, refs.columns[name])
        return list(map(_digest, map(b"".join, zip(*pieces))))  # noqa: B905

    def _decisive(
        self, ref: SampleRef, labels: list[tuple[int, str]], object_labels: list[tuple[int, str]]
    ) -> tuple[Any, ...]:
        decisive: tuple[Any, ...] = (self.settings, ref.key, ref.fingerprint, labels, sorted(ref.columns.items()))
        if self.layout.needs_objects and ref.objects:
            decisive += (object_labels, ref.objects.pack(), self.invalid_boxes.value)
        if self.layout.needs_mask:
            decisive += (self.image.mask_bit_depth, self.image.mask_padding)
        if self.layout.image_names:
            # The fingerprint is of the files alone, in the order of their names.
            decisive += (list(ref.images),)
        if len(ref.images) > 1:
            # The index says only where the first is.
            decisive += ([locator.name for locator in ref.images.values()][1:],)
        return decisive

    def _place(self, ref: SampleRef, labels: list[tuple[int, str]], geometry: Geometry) -> PlacedObjects:
        """The objects of a sample in its stored image."""
        return place_objects(
            ref.objects or Objects(),
            labels,
            geometry,
            invalid_boxes=self.invalid_boxes,
            with_masks=self.layout.needs_object_masks,
        )

    def _resolve_objects(self, ref: SampleRef) -> list[tuple[int, str]]:
        """Class index and name of every annotated object, if the layout asks for them."""
        labels = ref.objects.labels if self.layout.needs_objects and ref.objects else ()
        return [self.class_names.resolve(label) for label in labels]

    def _resolve_labels(self, ref: SampleRef) -> list[tuple[int, str]]:
        return self._resolve_label(ref.label)

    def _resolve_each(self, labels: Sequence[Value]) -> list[list[tuple[int, str]]]:
        return list(map(self._resolve_label, labels)) if self.layout.needs_label else [[]] * len(labels)

    def _resolve_label(self, label: Value) -> list[tuple[int, str]]:
        if not self.layout.needs_label:
            return []
        found = label if isinstance(label, list) else [label]
        labels = [self.class_names.resolve(label) for label in found]
        if len(labels) != 1 and any(field.startswith("label.") for field in self.layout.fields):
            if not labels:
                raise SampleError(Stage.LABEL, FailureReason.LABEL_MISSING, "no label")
            raise SampleError(Stage.LABEL, FailureReason.WRONG_TYPE, f"{len(labels)} labels where one is expected")
        return labels


def _other_values(ref: SampleRef, labels: list[tuple[int, str]]) -> dict[str, Any]:
    """The values of the fields that are not of an image and not columns."""
    values: dict[str, Any] = {"key": ref.key, "filename": ref.key.rsplit("/", 1)[-1]}
    values["source_id"] = (ref.objects.image_id if ref.objects else "") or ref.key
    values["labels.index"] = [index for index, _ in labels]
    values["labels.name"] = [name for _, name in labels]
    if labels:
        values["label.index"], values["label.name"] = values["labels.index"], values["labels.name"]
    return values


def _digest(packed: bytes) -> str:
    return hashlib.blake2b(packed, digest_size=HASH_DIGITS // 2).hexdigest()


def hash_images(images: Mapping[str, bytes]) -> str:
    """The hex BLAKE3 of the file of the image; of several, that of their hashes, in their order; "" without one.

    Args:
      images: the bytes of the images by their names; a mask does not count.
    """
    hashes = [content_hash(data) for name, data in images.items() if name != MASK]
    return content_hash("+".join(hashes).encode()) if len(hashes) > 1 else "".join(hashes)


def _names_of(name: str, names: Sequence[str]) -> Sequence[str]:
    """The image of a name, or those of the list of this name."""
    return [name] if name in names else [one for one in names if one.startswith(f"{name}[")]


def _class_names(labels: list[tuple[int, str]], placed: PlacedObjects | None) -> tuple[str, ...]:
    return placed.class_names if placed else tuple(name for _, name in labels)


def _image_facts(image: ConvertedImage) -> dict[str, Any]:
    geometry = image.geometry
    rare = {
        "kept_orientation": image.kept_orientation,
        "stored_maximum": image.stored_maximum,
        "quality": image.quality,
    }
    return {
        "height": image.height,
        "width": image.width,
        "replaced_format": image.replaced_format,
        "source_height": geometry.height if geometry else None,
        "source_width": geometry.width if geometry else None,
        "orientation": geometry.orientation if geometry else None,
        **{name: value for name, value in rare.items() if value is not None},
    }
