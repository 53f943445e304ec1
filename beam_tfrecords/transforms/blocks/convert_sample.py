"""Converts references and the bytes of their images to examples, by combining the pure steps for a sample."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack

from beam_tfrecords.dataset.index import HASH_DIGITS, pack_hash_and_crc
from beam_tfrecords.dataset.published_paths import UNCHANGED, PublishedPaths
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import MASK_FIELD, NAMED_IMAGE, OBJECT_MASKS, SOURCE_ID
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.features.serialize import read_fields, serialize_examples
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.tfrecord import masked_crc32c
from beam_tfrecords.transforms.blocks.place_objects import PlacedObjects, move_vectors, place_objects
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.images.convert_array import join_bands
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.masks import convert_mask, store_drawn
from beam_tfrecords.transforms.images.object_masks import find_outlines
from beam_tfrecords.transforms.images.orient import plan_geometry
from beam_tfrecords.transforms.images.quality import measure_together
from beam_tfrecords.transforms.labels import BACKGROUND, ClassNames, class_label
from beam_tfrecords.transforms.mapping.image_file import has_pixels, hash_file, merge_masks, spec_for
from beam_tfrecords.transforms.objects.objects import InvalidBoxes, Objects
from beam_tfrecords.transforms.objects.polygons import unpack_later
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import (
    IMAGE,
    MASK,
    RECORD,
    RecordRange,
    SampleRef,
    Scalar,
    Value,
    is_mask,
)
from beam_tfrecords.transforms.refs.stored_record import StoredRecord

# Creating a packer for each batch would take as long as packing. Sharing one is safe: packing holds the GIL.
_packer = msgpack.Packer()


class PreparedSample(NamedTuple):
    """A sample with converted images: all values for its example and index row that are not in the reference.

    Attributes:
      fields: field of the layout that comes from its images -> value.
      index_columns: index column -> value; sizes in pixels, `content_hash` from `hash_images`; `quality` is
        measured by `finish`.
      class_names: class names of its objects; None if its classes come from its labels.
      size: bytes of its images.
      example: serialized example that is reused unchanged with its `sample_hash`; None if `finish` makes the example.
    """

    fields: Mapping[str, Any] = {}
    index_columns: Mapping[str, Any] = {}
    class_names: tuple[str, ...] | None = None
    size: int = 0
    example: bytes | None = None


class _Batch(NamedTuple):
    """A batch of samples with their classes, each as its index and its name; `Field.of_batch` takes values from it.

    Attributes:
      labels: the classes of the labels of each sample; empty if the layout needs no labels.
      heads: feature -> the class of each sample, of the layout's heads.
      prepared: the converted samples; empty before they are converted.
    """

    refs: RefColumns
    labels: Sequence[Sequence[tuple[int, str]]]
    heads: Mapping[str, Sequence[tuple[int, str]]]
    prepared: Sequence[PreparedSample] = ()

    @property
    def keys(self) -> Sequence[str]:
        """Key of each sample."""
        return self.refs.keys

    @property
    def image_ids(self) -> Sequence[str]:
        """Id of each image in the input, or the key."""
        objects = [found and Objects.unpack(found) for found in self.refs.each("objects")]
        own = [(one.image_id if one else "") or key for one, key in zip(objects, self.keys, strict=True)]
        # Records of a dataset have theirs.
        return [one.fields.get(SOURCE_ID, name) for one, name in zip(self.prepared, own, strict=True)]

    @property
    def class_names(self) -> list[tuple[str, ...]]:
        """Names of the classes of each sample's labels."""
        return [tuple(name for _, name in found if name) for found in self.labels]

    def take(self, places: Sequence[int]) -> _Batch:
        """Returns the samples at these positions."""
        heads = {name: [pairs[place] for place in places] for name, pairs in self.heads.items()}
        prepared = [self.prepared[place] for place in places]
        return _Batch(self.refs.take(places), [self.labels[place] for place in places], heads, prepared)


@dataclasses.dataclass(frozen=True)
class ConvertedBatch:
    """Samples that are ready to be written.

    Attributes:
      crcs: the masked CRC of each example.
      class_names: for each sample, the names of its classes, or of the classes of its objects.
      index_columns: index column -> the value of each sample; see `beam_tfrecords.dataset.index`. `label` is None if
        the sample has no class, several classes, or objects. `sample_hash` changes with everything that decides the
        example, and ends with a checksum of the example.
      heads: feature -> the class name of each sample, of the layout's heads.
    """

    examples: Sequence[bytes]
    crcs: Sequence[int]
    class_names: Sequence[tuple[str, ...]]
    index_columns: Mapping[str, Sequence[Any]]
    heads: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    def take(self, places: Sequence[int]) -> ConvertedBatch:
        """Returns the samples at these positions."""

        def choose(values: Sequence[Any]) -> list[Any]:
            return list(map(values.__getitem__, places))

        index_columns = {name: choose(values) for name, values in self.index_columns.items()}
        heads = {name: choose(values) for name, values in self.heads.items()}
        examples, crcs, names = map(choose, (self.examples, self.crcs, self.class_names))
        return ConvertedBatch(examples, crcs, names, index_columns, heads)


@dataclasses.dataclass(frozen=True)
class ConvertSample:
    """Converts samples: `prepare` converts the images of one sample, `finish` makes the examples of a batch.

    All methods are pure.

    Attributes:
      heads: feature -> its classes, of the layout's features with the class of a column.
      settings: a hash of the settings and library versions that decide an example.
      invalid_boxes: what to do with a box that has no size or lies outside its image.
      records: layout of the input's examples if samples are records of a beam-tfrecords dataset; else None.
      keeps_stored: whether the images of these records are reused as they are stored.
      paths: published paths of the request.
    """

    image: ImageSpec
    layout: Layout
    class_names: ClassNames
    settings: str = ""
    invalid_boxes: InvalidBoxes = InvalidBoxes.REJECT
    records: Layout | None = None
    keeps_stored: bool = False
    heads: Mapping[str, ClassNames] = dataclasses.field(default_factory=dict)
    paths: PublishedPaths = UNCHANGED

    def prepare(self, ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
        """Converts the images of one sample.

        Args:
          images: image name, as in the reference -> bytes; empty for a row without images.

        Raises:
          SampleError: the sample is rejected.
        """
        if self.layout.keeps_records:
            example = images[RECORD]
            return PreparedSample({}, {"content_hash": hash_images(images)}, None, len(example), example)
        # Labels first: resolving them is cheap, and saves decoding the images of a sample that is rejected.
        labels = self._resolve_sample(ref)
        if self.records is None or not isinstance(ref.locator, RecordRange) or not images or has_pixels(images):
            return self._place(ref, labels, *self._convert(ref, images), images)
        record = StoredRecord.read(images[IMAGE], ref.locator, self.records)
        if self.keeps_stored:
            columns = self._known_columns(record.place.index_columns)
            kept = PreparedSample(record.image_fields(self.layout, self.image), columns, size=ref.size)
            return self._place(ref, labels, kept, Geometry.unchanged(*record.size) if self._moves_with_image else None)
        converted, geometry = self._convert(ref, record.images)
        if geometry is not None:
            geometry = dataclasses.replace(geometry, drawn_in_file="kept_orientation" in ref.locator.index_columns)
        placed = self._place(ref, labels, converted, geometry, record.images)
        # The image keeps its id, the only field that does not come from it.
        own = {name: values for name, values in record.fields.items() if name == SOURCE_ID}
        return placed._replace(fields={**own, **placed.fields})

    def reuse(self, ref: SampleRef, example: bytes, index_columns: Mapping[str, Any], *, whole: bool) -> PreparedSample:
        """Returns the sample from its record in a previous dataset, without decoding.

        Args:
          example: the serialized example of that record.
          index_columns: index column -> value in the index row of that record.
          whole: whether to reuse the example unchanged; otherwise only its image goes into a new example.

        Raises:
          SampleError: the sample is rejected.
        """
        labels = self._resolve_sample(ref)
        if whole:
            geometry = self._find_geometry(index_columns) if Content.OBJECTS in self.layout.required else None
            names = self._place_objects(ref, labels, geometry, {}).class_names if geometry else None
            return PreparedSample({}, index_columns, names, len(example), example)
        fields = read_fields(self.layout, example, with_ids=self.records is not None)
        remade = self._known_columns(index_columns)
        geometry = self._find_geometry(index_columns) if self._moves_with_image else None
        return self._place(ref, labels, PreparedSample(fields, remade, size=len(example)), geometry)

    def _convert(self, ref: SampleRef, images: Mapping[str, bytes]) -> tuple[PreparedSample, Geometry | None]:
        """Returns the sample with its converted images, and the geometry of the first if anything moves with it."""
        names = [name for name in images if not is_mask(name)] if Content.IMAGE in self.layout.required else []
        converted: dict[str, ConvertedImage] = {}
        for name in self._choose(names):
            try:
                converted[name] = convert_image(images[name], spec_for(images[name], self.image))
            except SampleError as error:
                raise ref.attribute_error(error, name) from error
        fields: dict[str, Any] = {
            NAMED_IMAGE + name: [converted[one].data for one in _names_of(name, names)]
            for name in self.layout.image_names
        }
        index_columns: dict[str, Any] = {"content_hash": hash_images(images)}
        size, geometry = sum(len(one.data) for one in converted.values()), None
        if names:
            # The index describes the first image.
            image = join_bands(converted, self.image) if Content.ARRAY in self.layout.required else converted[names[0]]
            fields |= image.fields
            index_columns |= image.index_columns
            if self._moves_with_image or self.layout.beside:
                geometry = image.geometry.keeping(image.kept_orientation)
        return PreparedSample(fields, index_columns, size=size), geometry

    def _place(
        self,
        ref: SampleRef,
        labels: Sequence[tuple[int, str]],
        image: PreparedSample,
        geometry: Geometry | None,
        images: Mapping[str, bytes] | None = None,
    ) -> PreparedSample:
        """Returns the sample with everything that moves with its image: points, objects and masks.

        Args:
          labels: class index and name of each object.
          image: the sample with its image, converted or reused.
          geometry: geometry of the image; None if nothing moves with it.
          images: image name -> bytes; None if the image is reused with its mask.
        """
        if geometry is None:
            return image
        fields, columns, class_names = {**image.fields}, image.index_columns, None
        fields |= move_vectors(self.layout, ref, geometry, self.records)
        if Content.OBJECTS in self.layout.required:
            placed = self._place_objects(ref, labels, geometry, images or {})
            class_names, counts = placed.class_names, placed.index_columns
            # The index of stored records says what their build has cut.
            known = {**counts, **columns, "objects": len(class_names)} if self.keeps_stored else {**columns, **counts}
            fields, columns = fields | placed.fields, known
            if placed.numbers is not None:
                fields[MASK_FIELD] = store_drawn(placed.numbers, geometry, self.image)
        for kind in self.layout.beside if images is not None else ():
            mask = merge_masks(images or {}, self.image, kind.beside)
            fields[kind.name] = convert_mask(mask, geometry, spec_for(mask or b"", self.image))
        return image._replace(fields=fields, index_columns=columns, class_names=class_names)

    def _known_columns(self, index_columns: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the columns of an index row that a new record with the same image has, too."""
        return {
            name: value
            for name, value in index_columns.items()
            if name != "sample_hash" and (Content.OBJECTS in self.layout.required or not name.startswith("objects"))
        }

    def finish(self, refs: RefColumns, prepared: Sequence[PreparedSample]) -> ConvertedBatch:
        """Makes the examples of a batch.

        Args:
          prepared: result of `prepare` or `reuse` for each sample; `PreparedSample()` for a row without an image.

        Raises:
          SampleError: one of the samples is rejected.
        """
        batch = self._resolve(refs)._replace(prepared=prepared)
        examples = self._serialize(batch)
        crcs = list(map(masked_crc32c, examples))
        index_columns = _to_columns([one.index_columns for one in prepared])
        for name, values in measure_together(index_columns.pop("quality", ())).items():
            index_columns[name] = _fill(index_columns.get(name, ()), values)
        index_columns["content_hash"] = _fill(index_columns.get("content_hash", ()), [""] * len(refs))
        hashes = list(map(pack_hash_and_crc, self._hash(batch), crcs))
        index_columns["sample_hash"] = _fill(index_columns.get("sample_hash", ()), hashes)
        names = _fill([one.class_names for one in prepared], batch.class_names)
        only = [found[0] if len(found) == 1 else None for found in names]
        if "objects" in index_columns:
            only = [
                None if count is not None else one for count, one in zip(index_columns["objects"], only, strict=True)
            ]
        heads = {name: [found for _, found in pairs] for name, pairs in batch.heads.items()}
        index_columns = {**self.listed_columns(refs), "label": only, **index_columns}
        return ConvertedBatch(examples, crcs, names, index_columns, heads)

    def listed_columns(self, refs: RefColumns) -> dict[str, list[Any]]:
        """Returns index column -> value of each sample, for the columns that the listing knows; paths are published."""
        return {"key": refs.keys, "uri": refs.uris(self.paths), "fingerprint": refs.each("fingerprint")}

    def find_failures(self, refs: RefColumns) -> list[SampleError | None]:
        """Returns for each sample why it is rejected before its images are read; None if it is not."""
        objects = [Objects.unpack_labels(found) if found else () for found in refs.each("objects")]
        cells = [self._cells_of(refs, name) for name in self.heads]
        return [self._find_failure(*found) for found in zip(refs.labels, objects, *cells, strict=True)]

    def names_of_labels(self, refs: RefColumns) -> list[tuple[str, ...]]:
        """Returns the class names of each sample if the layout needs labels; otherwise empty tuples.

        Raises:
          SampleError: one of the samples is rejected.
        """
        return self._resolve(refs).class_names

    def sample_hashes(self, refs: RefColumns) -> list[str]:
        """Returns hashes that change with everything that decides an example: the sample, the settings, the libraries.

        The index stores each hash with a checksum, from `pack_hash_and_crc`.

        Raises:
          SampleError: one of the samples is rejected.
        """
        return self._hash(self._resolve(refs))

    def _find_failure(self, label: Value, objects: Sequence[Scalar], *cells: Value) -> SampleError | None:
        try:
            self._resolve_labels(label)
            self._resolve_each(objects)
            for name, cell in zip(self.heads, cells, strict=True):
                self._find_class(name, cell)
        except SampleError as error:
            return error
        return None

    def _serialize(self, batch: _Batch) -> list[bytes]:
        made = [index for index, one in enumerate(batch.prepared) if one.example is None]
        remade = batch if len(made) == len(batch.prepared) else batch.take(made)
        columns = [self._values(feature, remade) for feature in self.layout.features] if made else []
        examples = iter(serialize_examples(self.layout, columns) if made else ())
        return [next(examples) if one.example is None else one.example for one in batch.prepared]

    def _values(self, feature: Feature, batch: _Batch) -> Sequence[Any]:
        """Returns the values of a feature, one for each sample."""
        columns = batch.refs.columns
        if feature.is_class:
            return [index for index, _ in batch.heads[feature.name]]
        if feature.moves:
            return [one.fields.get(feature.name) for one in batch.prepared]
        if feature.columns:
            return list(map(list, zip(*(columns[name] for name in feature.columns), strict=True)))
        if feature.column is not None:
            return columns.get(feature.column) or [None] * len(batch.refs)
        if feature.kind.of_batch:
            return feature.kind.of_batch(batch)
        # A list of images may be empty.
        missing: Any = None if feature.image is None else []
        return [one.fields.get(feature.field, missing) for one in batch.prepared]

    def _choose(self, names: Sequence[str]) -> Sequence[str]:
        """Returns the names of the images of a sample that are converted."""
        if Content.ARRAY in self.layout.required:
            return names
        stored = {one for name in self.layout.image_names for one in _names_of(name, names)}
        return [name for name in names if name == names[0] or name in stored]

    def _hash(self, batch: _Batch) -> list[str]:
        """Returns the hashes of `sample_hashes`. Packs column by column, which is faster than row by row."""
        pack, array = _packer.pack, _packer.pack_array_header
        refs, rare = batch.refs, self._rare(batch)
        start = [array(5 + len(found)) + pack(self.settings) for found in rare] if rare else None
        names = sorted(refs.columns)
        pieces: list[Iterable[bytes]] = [
            start or itertools.repeat(array(5) + pack(self.settings)),
            map(pack, refs.keys),
            map(pack, refs.each("fingerprint")),
            map(pack, batch.labels),
            itertools.repeat(array(len(names))),
        ]
        for name in names:
            pieces += itertools.repeat(array(2) + pack(name)), map(pack, refs.columns[name])
        if rare:
            pieces.append(b"".join(map(pack, found)) for found in rare)
        return list(map(_digest, map(b"".join, zip(*pieces))))  # noqa: B905

    def _rare(self, batch: _Batch) -> Sequence[Sequence[Any]]:
        """Returns the rarer values that also decide the example of each sample; empty if there are none."""
        images = batch.refs.each("images")
        needs_objects, image_names = Content.OBJECTS in self.layout.required, self.layout.image_names
        has_rare = needs_objects or self.layout.beside or image_names or Content.ARRAY in self.layout.required
        if not (has_rare or self.heads or max(map(len, images), default=0) > 1):
            return ()
        found: list[list[Any]] = [[] for _ in images]
        for name in sorted(self.heads):
            for decisive, pair in zip(found, batch.heads[name], strict=True):
                decisive.append([name, *pair])
        of_each = found, batch.refs.each("objects"), images, batch.refs.names(self.paths)
        for decisive, objects, places, names in zip(*of_each, strict=True):
            if needs_objects and objects:
                labels = self._resolve_each(Objects.unpack_labels(objects))
                decisive += labels, objects, self.invalid_boxes.value
            if self.layout.draws_mask:
                decisive += "drawn", self._first_number, self.image.mask_bit_depth, self.image.mask_padding
            if self.layout.beside:
                decisive += self.image.mask_bit_depth, self.image.mask_padding
                decisive += [bool(self.image.mask_colors), *self.image.mask_numbers] if self.image.mask_numbers else []
                decisive += [parts] if (parts := [name for name in places if is_mask(name) and name != MASK]) else []
            if Content.ARRAY in self.layout.required:
                decisive += self.image.array_type, self.image.array_axes, self.image.pages
            if image_names or Content.ARRAY in self.layout.required:
                # The fingerprint covers only the files, in the order of their names.
                decisive.append(list(places))
            if len(names) > 1:
                # The index has only the location of the first image.
                decisive.append(names[1:])
        return found

    def _place_objects(
        self, ref: SampleRef, labels: Sequence[tuple[int, str]], geometry: Geometry, images: Mapping[str, bytes]
    ) -> PlacedObjects:
        """Returns the objects of a sample in its stored image."""
        objects = ref.objects or Objects()
        return place_objects(
            find_outlines(objects, geometry, images, self.image),
            labels,
            geometry,
            invalid_boxes=self.invalid_boxes,
            with_masks=OBJECT_MASKS in self.layout.fields,
            with_polygons=Content.POLYGONS in self.layout.required,
            first_number=self._first_number if self.layout.draws_mask else None,
            # Only annotations of a whole image say which object covers which.
            are_ordered=not any(map(unpack_later, objects.polygons)),
        )

    @property
    def _moves_with_image(self) -> bool:
        """Whether the layout has objects or points, whose places a reused image decides."""
        return Content.OBJECTS in self.layout.required or self.layout.moves_points

    @property
    def _first_number(self) -> int:
        """Number in drawn masks of the class with index 0."""
        return 0 if self.class_names.names[:1] == (BACKGROUND,) else 1

    def _find_geometry(self, index_columns: Mapping[str, Any]) -> Geometry:
        """Returns the geometry of a stored image from its index row."""
        if self.keeps_stored:
            # `source_height` and `source_width` describe the input of the previous dataset.
            return Geometry.unchanged(index_columns["height"], index_columns["width"])
        geometry = plan_geometry(
            index_columns["source_height"],
            index_columns["source_width"],
            orientation=index_columns["orientation"],
            spec=self.image,
        )
        return geometry.keeping(index_columns.get("kept_orientation"))

    def _resolve_each(self, labels: Sequence[Scalar]) -> list[tuple[int, str]]:
        """Returns class index and name of every annotated object; empty if the layout does not need objects."""
        return list(map(self.class_names.resolve, labels)) if Content.OBJECTS in self.layout.required else []

    def _cells_of(self, refs: RefColumns, name: str) -> list[Value]:
        # Samples that the listing has rejected have no columns.
        return refs.columns.get(self.layout.heads[name].column or "") or [None] * len(refs)

    def _find_class(self, name: str, value: Value) -> tuple[int, str]:
        """Returns class index and name of a value of a feature with the class of a column.

        Raises:
          SampleError: the value is missing, unknown, or several classes; the detail names the column.
        """
        try:
            label = class_label(value, ())
            if isinstance(label, list):
                detail = f"{len(label)} classes where one is expected"
                raise SampleError(Stage.LABEL, FailureReason.WRONG_TYPE, detail)
            return self.heads[name].resolve(label)
        except SampleError as error:
            raise error.about(f"column {self.layout.heads[name].column!r}") from error

    def _resolve(self, refs: RefColumns) -> _Batch:
        has_labels = Content.LABEL in self.layout.required
        labels = list(map(self._resolve_labels, refs.labels)) if has_labels else [[]] * len(refs)
        heads = {name: [self._find_class(name, cell) for cell in self._cells_of(refs, name)] for name in self.heads}
        return _Batch(refs, labels, heads)

    def _resolve_sample(self, ref: SampleRef) -> list[tuple[int, str]]:
        """Checks the labels of a sample; returns class index and name of each of its objects."""
        self._resolve_labels(ref.label)
        return self._resolve_each(ref.objects.labels if ref.objects else ())

    def _resolve_labels(self, label: Value) -> list[tuple[int, str]]:
        """Returns class index and name of every label of a sample; empty if the layout does not need labels."""
        if Content.LABEL not in self.layout.required:
            return []
        labels = list(map(self.class_names.resolve, label if isinstance(label, list) else (label,)))
        if len(labels) != 1 and self.layout.has_single_label:
            if not labels:
                raise SampleError(Stage.LABEL, FailureReason.LABEL_MISSING, "no label")
            raise SampleError(Stage.LABEL, FailureReason.WRONG_TYPE, f"{len(labels)} labels where one is expected")
        return labels


def _to_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    """Returns the columns that have a value in at least one row."""
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {name: values for name, values in columns.items() if values.count(None) < len(values)}


def _fill(values: Sequence[Any], others: list[Any]) -> list[Any]:
    """Replaces each None by the value of `others`; returns `others` if there are no values at all."""
    if len(values) == values.count(None):
        return others
    return [other if value is None else value for value, other in zip(values, others, strict=True)]


def _digest(packed: bytes) -> str:
    return hashlib.blake2b(packed, digest_size=HASH_DIGITS // 2).hexdigest()


def hash_images(images: Mapping[str, bytes]) -> str:
    """Returns the hex BLAKE3 of the image file; for several images, of their joined hashes; "" without an image.

    Args:
      images: image name -> bytes; masks are ignored.
    """
    hashes = [hash_file(data) for name, data in images.items() if not is_mask(name)]
    return content_hash("+".join(hashes).encode()) if len(hashes) > 1 else "".join(hashes)


def _names_of(name: str, names: Sequence[str]) -> Sequence[str]:
    """Returns the image with a name, or the images of the list with this name."""
    return [name] if name in names else [one for one in names if one.startswith(f"{name}[")]
