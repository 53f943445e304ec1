"""The source for TFRecord files: merges, re-splits or re-encodes datasets of TFDS and other programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import SAME, Layout
from beam_tfrecords.features.serialize import ParsedExample, check_features, parse_plain_example
from beam_tfrecords.tfrecord import HEADER_BYTES, Record, RecordError
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.labels import numbers_of
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, RECORD, Locator, PixelRange, Range, SampleRef
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.missing_images import refuse_missing
from beam_tfrecords.transforms.sources.image_roots import pair_roots
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, reject_missing
from beam_tfrecords.transforms.sources.records.dataset_source import open_datasets
from beam_tfrecords.transforms.sources.records.datasets import find_datasets
from beam_tfrecords.transforms.sources.records.folder_metadata import (
    Features,
    describe_folder,
)
from beam_tfrecords.transforms.sources.records.image_choice import choose_images, with_texts
from beam_tfrecords.transforms.sources.records.image_features import ImagePlan
from beam_tfrecords.transforms.sources.records.kept_features import find_kept_layout
from beam_tfrecords.transforms.sources.records.object_features import find_objects, read_objects
from beam_tfrecords.transforms.sources.records.record_datasets import (
    find_files_of_records,
    place_files,
    read_first_of,
    record_splits,
)
from beam_tfrecords.transforms.sources.records.record_files import (
    FILE_NAMES,
    corrupt,
    file_name,
    scan_file,
)
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, is_label, read_cell
from beam_tfrecords.transforms.sources.tables.row_source import NamedImages, RowSource
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowImages, RowReader, number_key
from beam_tfrecords.transforms.sources.tables.table import FirstRows, Row
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType, TableSettings
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.splits import Splits

_LABELS = ("label", "image/class/label")
# Features of TensorFlow's ImageNet records: class number from 1, class name, WordNet id, and file name.
_IMAGENET = ("image/class/label", "image/class/text", "image/class/synset", "image/filename")


class TfrecordSource(RowSource):
    """TFRecord files.

    Args:
      files: the files.
      start: first records of the first file.
      described: folder -> metadata of its files.
      request: the request.
      needs: requested contents.

    Raises:
      RequestError: the files do not fit the request.
    """

    description = Description(unit="record")

    def __init__(
        self,
        files: Sequence[Partition],
        start: FirstRows,
        described: Mapping[str, Features],
        request: OpenRequest,
        needs: Needs,
    ) -> None:
        super().__init__(files, request.inputs)
        settings: TableSettings = request.spec
        features = described[storage.dirname(files[0].uri)]
        texts = with_texts(start)
        has_image = Content.IMAGE in needs.contents
        images = choose_images(start, texts, features, settings, needs) if has_image else ImagePlan()
        columns = tuple(name for name in start.columns if name not in images.held)
        types = {name: kind for name, kind in (start.column_types or {}).items() if name in columns}
        # If the records hold the images, a file name beside them does not name a further image.
        table = dataclasses.replace(texts if images.files else start, columns=columns, column_types=types)
        objects = find_objects(start, features, settings, needs, image=images.features.get(IMAGE, ""), usual=_LABELS)
        if objects and not objects.is_normalized:
            self.notes.append("the boxes are in pixels")
        lacks = "no feature 'label'"
        folders = (part for file in files for part in file.key_prefix.split("/")[:-2])
        unread = {part.partition("=")[0] for part in folders if "=" in part} - {*start.columns}
        if unread:
            shown = f"the values in names of folders such as {min(unread)}=… are not read"
            self.notes.append(shown)
            lacks += f" ({shown}; write them into the records)"
        if images.files is not None and not (settings.image_column or settings.image_path):
            self.notes.append(f"image files from feature {images.files.image_column!r}")
        label = None
        if not objects:
            label = choose_label(table, settings, needs, declared=features.labels, first=_LABELS, lacks=lacks)
        named = objects.label if objects else label or ""
        if named and settings.label_type is LabelType.CLASS:
            _refuse_byte_labels(start, named)
        is_imagenet = (
            label == _IMAGENET[0] and {*_IMAGENET} <= {*columns} and not (needs.class_names or request.spec.classes)
        )
        if is_imagenet and settings.key_column is None:
            settings = dataclasses.replace(settings, key_column=_IMAGENET[-1])
        has_several = label in features.several
        cells = self._take_columns(
            table,
            images.files or settings,
            needs,
            label,
            has_several=has_several,
            has_mask=images.mask is not None,
            images=None if images.files else {name: name in images.lists for name in images.features},
        )
        are_numbered = is_imagenet and settings.label_type is LabelType.CLASS
        if are_numbered:
            cells = dataclasses.replace(cells, text=_IMAGENET[1])
        class_names = {folder: one.class_names.get(named, ()) for folder, one in described.items()}
        # If datasets have different classes, the labels, which are names, determine the classes.
        common = features.class_names.get(named, ()) if len(set(class_names.values())) == 1 else ()
        by_feature = _names_by_feature(described)
        seen, kept = self.description, None
        if needs.records is not None:
            kept, notes = find_kept_layout(files, start.columns, needs.records, by_feature)
            self.notes += notes
            seen = dataclasses.replace(seen, columns=tuple(sorted(kept.columns)))
        self._describe(
            columns=seen.columns,
            kept_layout=kept,
            provides=seen.provides
            | ({Content.OBJECTS, Content.LABEL} if objects else frozenset())
            | ({Content.RECORDS} if kept else frozenset()),
            labels=dataclasses.replace(
                seen.labels,
                names=common,
                numbers={
                    folder: numbers_of(names, first=objects.first_class if objects else 0)
                    for names, folder in {names: folder for folder, names in class_names.items() if names}.items()
                },
                may_be_indices=not (any(class_names.values()) or are_numbered),
                are_numbered=are_numbered,
                first=objects.first_class if objects else 0,
                text_column="" if are_numbered else seen.labels.text_column,
            ),
            column_classes={
                name: by_feature[name][0] if len({*by_feature[name]}) == 1 else ()
                for name in features.labels
                if name in (needs.columns or ())
            },
        )
        self._split_files(record_splits(files), request, needs)
        if cells.columns.split is None:
            self._note_splits()
        lengths = {
            path: length
            for path in (file.uri for file in files)
            if (length := described[storage.dirname(path)].length_of(path)) is not None
        }
        self._cells, self.plan, self.objects, self.kept = cells, images, objects, kept
        self.class_names, self._lengths = class_names, lengths
        self._known = frozenset(start.columns)
        # Features with the file names of images, which end the keys of records that have no other names.
        self._file_names = () if images.files or kept or cells.columns.key else FILE_NAMES
        self._image_root, self._allow_outside_root = request.spec.image_root, request.spec.allow_outside_root
        roots = pair_roots(files, request.spec.image_root)
        self._roots = {file.uri: one for file, one in zip(files, roots, strict=True)}
        of_objects = objects.features if objects else ()
        self._describe(used={*images.used, *of_objects, *cells.needed, *self._file_names})

    def check(self, most_missing: float) -> None:
        """See `Source.check`."""
        table, files = self.description.table, self.plan.files
        if files is None and self._image_root:
            raise RequestError(
                f"`image_root={','.join(self._image_root)}`: no feature of the records names image files; leave "
                "it out, or name the feature with `image_column`",
                code="setting_not_applicable",
            )
        if files is not None and table is not None:
            roots = next(iter(self._roots.values())).every
            refuse_missing(table, self._cells.columns, roots, most_missing)

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields one reference per record; rejects a damaged record, and continues after it if the framing allows.

        Also rejects missing records if the number of records in the file is known.

        Raises:
          ChangedError: the file is no longer the listed version.
          SampleError: the file is damaged, and the number of missing samples is unknown.
        """
        length = self._lengths.get(partition.uri)
        number, end = 0, 0
        roots = self._roots[partition.uri].own or self._roots[partition.uri].every
        named = NamedImages(self._cells.columns, roots, allow_outside_root=self._allow_outside_root)
        # A number is only unique with the name of its file; a key from a feature stays in other files.
        of_file, prefix = dataclasses.replace(partition, key_prefix=""), partition.key_prefix
        cells = dataclasses.replace(self._cells, class_names=self.class_names.get(storage.dirname(partition.uri), ()))
        try:
            for record, is_compressed in scan_file(partition):
                if isinstance(record, RecordError):
                    if record.ends:
                        raise corrupt(record)
                else:
                    end = record.offset + record.length
                located = Located(prefix + number_key(number), number)
                yield self._read(cells, named, of_file, located, record, staging, tally, is_compressed=is_compressed)
                number += 1
            if number < (length or 0):
                detail = f"the file ends at byte {end:,}, after {number:,} of its {length:,} records"
                raise SampleError(Stage.LIST, FailureReason.TRUNCATED, detail)
        except SampleError as error:
            if length is None or number >= length:
                raise
            yield from reject_missing(partition, range(number, length), error)

    def _read(
        self,
        cells: RowReader,
        named: NamedImages,
        partition: Partition,
        located: Located,
        record: Record | RecordError,
        staging: StagingFiles,
        tally: Tally,
        *,
        is_compressed: bool,
    ) -> SampleRef:
        """Returns the sample of a record; a rejected one for a damaged record."""
        features: ParsedExample = {}
        row: dict[str, Any] | SampleError
        try:
            if isinstance(record, RecordError):
                raise corrupt(record)
            features = parse_plain_example(record.data)
            for feature in features.keys() - self._known:
                tally.see_field(printable(storage.basename(partition.uri)), feature)
            row = {column: read_cell(features.get(column)) for column in cells.needed}
            for image in cells.columns.lists:
                row[cells.columns.images[image]] = row[cells.columns.images[image]] or []
            names = {one: read_cell(features.get(one)) for one in self._file_names}
            if name := file_name(names):
                located.key = f"{located.key}/{name}"
        except ValueError as error:
            row = invalid_row(f"record {located.number} at byte {record.offset:,}: {error}")
        except SampleError as error:
            row = error
        images = _RecordImages(self, named, partition, staging, record, is_compressed, features)
        return cells.sample(row, located, partition, images)


@dataclasses.dataclass(frozen=True)
class _RecordImages(RowImages):
    """Finds the images, the mask and the objects of a record.

    Attributes:
      named: finds images that the record names.
      staging: receives images whose bytes are not in the file.
      is_compressed: whether the file is compressed.
      features: features of the record; empty if it cannot be parsed.
    """

    source: TfrecordSource
    named: NamedImages
    partition: Partition
    staging: StagingFiles
    record: Record | RecordError
    is_compressed: bool
    features: ParsedExample

    def read_paths(self, row: Mapping[str, Any], found: Located) -> None:
        """See `RowImages.read_paths`."""
        self.named.read_paths(row, found)

    def place(self, row: Row | SampleError, found: Located) -> dict[str, Locator]:
        """See `RowImages.place`."""
        return {IMAGE: Range(self.partition.uri, self.record.offset, 0, f"{self.partition.uri}#{found.number}")}

    def find(self, row: Mapping[str, Any], found: Located) -> None:
        """See `RowImages.find`."""
        assert isinstance(self.record, Record)
        source, mask, data = self.source, self.source.plan.mask, self.record.data
        if source.kept is not None:
            _check_kept(self.record, self.features, source.kept)
            found.images = {RECORD: self._locate(found, data)}
            found.size, found.fingerprint = len(data), content_hash(data)
            return
        if found.paths:
            self.named.find(row, found)
        else:
            images = dict(self._find_images(found))
            found.size = next((one.length for one in images.values()), 0)
            # The same record in another file is the same sample.
            found.fingerprint = content_hash(data)
            image = images.get(IMAGE)
            if isinstance(image, PixelRange):
                # Reading the same record in another way is a change.
                found.fingerprint += f":{image.axes}{list(image.shape)}{image.dtype}{image.limits or ''}"
            found.images |= images
            if mask:
                found.images[MASK] = self._image_of(found, mask, FailureReason.MASK_MISSING)
        if source.objects:
            names = source.class_names.get(storage.dirname(self.partition.uri), ())
            found.objects = read_objects(self.features, source.objects, names)

    def _find_images(self, found: Located) -> Iterator[tuple[str, Range]]:
        """Yields the name of each image, and the image.

        Raises:
          SampleError: an image is missing, or a feature has several.
        """
        plan = self.source.plan
        for name, feature in plan.features.items():
            kind, values = self.features.get(feature, ("", []))
            if name in plan.lists and kind in ("", "bytes"):
                yield from ((f"{name}[{number}]", self._locate(found, value)) for number, value in enumerate(values))
            else:
                yield name, self._image_of(found, feature)

    def _image_of(self, found: Located, name: str, missing: FailureReason = FailureReason.INVALID_ROW) -> Range:
        """Returns the place of the image in a feature.

        Raises:
          SampleError: the feature has no image or several, or its pixels do not fit the size, the type or the range.
        """
        pixels = self.source.plan.pixels.get(name)
        if pixels is not None:
            read, shape = pixels.read({one: read_cell(self.features.get(one)) for one in pixels.features})
            at = self._locate(found, read.tobytes())
            where = at.uri, at.offset, at.length, at.name, at.version
            return PixelRange(*where, shape=shape, axes=pixels.axes, dtype=read.dtype.str, limits=pixels.limits)
        kind, values = self.features.get(name, ("", []))
        if kind != "bytes" or len(values) != 1:
            detail = f"the feature {name!r} has {len(values)} images; expected 1"
            raise SampleError(Stage.LIST, missing, detail)
        return self._locate(found, values[0])

    def _locate(self, found: Located, image: bytes) -> Range:
        """Returns the byte range of an image: in the record, if it has these bytes, else in a staging file."""
        assert isinstance(self.record, Record)
        of, name = self.partition, f"{self.partition.uri}#{found.number}"
        at = -1 if self.is_compressed else self.record.data.find(image)
        if at < 0:
            return self.staging.add([image], size=len(image), name=name)
        return Range(of.uri, self.record.offset + HEADER_BYTES + at, len(image), name, of.version)


def _check_kept(record: Record, features: ParsedExample, layout: Layout) -> None:
    """Checks that a record has the features of the layout.

    Raises:
      SampleError: the features differ; the detail says how to accept them.
    """
    found = next(check_features(features, layout), None)
    if found is None:
        return
    name, problem = found
    known = next((feature.type for feature in layout.features if feature.name == name), "")
    kind = features.get(name, ("", []))[0] or known or "bytes"
    advice = ""
    if known in ("", kind):
        advice = f"; `layout={SAME},{name}:{kind}_list` accepts any number of its values"
    detail = f"record {record.number}: {problem}, as in the first records{advice}"
    raise SampleError(Stage.LIST, FailureReason.WRONG_TYPE, detail)


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the files, and reads their first records and metadata.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    inputs = request.inputs
    if datasets := find_datasets(inputs.paths):
        return open_datasets(datasets, request)
    files, with_metadata = find_files_of_records(inputs, request.spec)
    described = {
        folder: describe_folder(folder) if folder in with_metadata else Features()
        for folder in {storage.dirname(file.uri) for file in files}
    }
    start = read_first_of(files)

    def make(needs: Needs) -> TfrecordSource:
        read, said = files, inputs
        if needs.splits.folders and (placed := place_files(files, needs.splits.folders)):
            read, said = placed, dataclasses.replace(inputs, splits=dict.fromkeys(inputs.paths, ""))
            needs = dataclasses.replace(needs, splits=Splits())
        return TfrecordSource(read, start, described, dataclasses.replace(request, inputs=said), needs)

    return make


def _refuse_byte_labels(start: FirstRows, label: str) -> None:
    """Refuses labels whose bytes are not texts, such as those of NumPy's numbers and of serialized tensors."""
    cells = [row.get(label) for row in start.first_rows]
    parts = [part for cell in cells for part in (cell if isinstance(cell, list) else [cell])]
    for value in parts:
        # The bytes of some small numbers are blanks.
        if isinstance(value, bytes) and value and not (is_label(value) and value.strip()):
            raise RequestError(
                f"{quote_input(start.path)}: the feature {label!r} has bytes instead of text, such as {value[:12]!r}; "
                "expected texts or numbers; name another feature with `label_column`, or leave the labels out",
                [Reading("images without labels", {"label_column": None, "layout": "image"})],
                code="column_without_labels",
            )


def _names_by_feature(described: Mapping[str, Features]) -> dict[str, list[Sequence[str]]]:
    """Returns feature -> its class names in each folder; empty where a folder has none."""
    names = {name for one in described.values() for name in one.labels}
    return {name: [one.class_names.get(name, ()) for one in described.values()] for name in names}
