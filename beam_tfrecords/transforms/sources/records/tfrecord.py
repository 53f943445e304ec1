"""The source for TFRecord files: merges, re-splits or re-encodes datasets of TFDS and other programs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Suggestion
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.examples.layouts import ALL_COLUMNS, SAME, Layout
from beam_tfrecords.transforms.settings import change_settings
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.missing_images import refuse_missing
from beam_tfrecords.transforms.sources.image_roots import pair_roots
from beam_tfrecords.transforms.sources.input_settings import PathSettings
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs, quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.records.dataset_source import find_datasets, open_datasets
from beam_tfrecords.transforms.sources.records.description import RecordMetadata, describe_folder
from beam_tfrecords.transforms.sources.records.image_choice import ImageChoice, choose_images, has_images, with_texts
from beam_tfrecords.transforms.sources.records.kept_features import find_kept_layout
from beam_tfrecords.transforms.sources.records.object_features import find_objects
from beam_tfrecords.transforms.sources.records.partitions import add_columns
from beam_tfrecords.transforms.sources.records.record_files import choose_evenly, count_files
from beam_tfrecords.transforms.sources.records.record_form import RecordForm
from beam_tfrecords.transforms.sources.records.record_images import HeldImages, NamedFiles
from beam_tfrecords.transforms.sources.records.record_rows import (
    ReadTfrecord,
    read_first_records,
)
from beam_tfrecords.transforms.sources.records.record_splits import place_files, record_splits
from beam_tfrecords.transforms.sources.records.record_trees import find_record_tree
from beam_tfrecords.transforms.sources.records.tfds_features import Features
from beam_tfrecords.transforms.sources.registry import FRAMES, RECORDS
from beam_tfrecords.transforms.sources.selection import Selection
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tables.cells import is_label
from beam_tfrecords.transforms.sources.tables.joined_table import Joins
from beam_tfrecords.transforms.sources.tables.row_source import RowSource, splits_of
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType, TableSettings
from beam_tfrecords.transforms.splits import Splits

_LABELS = ("label", "image/class/label")
# Files whose first records are compared, and records of each.
_FILES, _LOOKED = 8, 4
# Features of TensorFlow's ImageNet records: class number from 1, class name, WordNet id, and file name.
_IMAGENET = ("image/class/label", "image/class/text", "image/class/synset", "image/filename")


class TfrecordSource(RowSource):
    """TFRecord files.

    Args:
      files: the files.
      start: first records of the first file.
      described: folder -> metadata of its files.
      inputs: inputs of the request.
      settings: settings of the rows.
      selection: records to convert.
      paths: settings of the paths of images.
      form: the form of a record; `BYTES` for sequences if no setting says that their frames are samples.
      of_folders: columns from the names of folders that are not features.
      needs: requested contents.

    Raises:
      RequestError: the files do not fit the request.
    """

    description = Description(unit="record")

    def __init__(
        self,
        files: Sequence[InputFile],
        start: FirstRows,
        described: Mapping[str, RecordMetadata],
        inputs: Inputs,
        settings: TableSettings,
        selection: Selection,
        paths: PathSettings,
        form: RecordForm,
        of_folders: frozenset[str],
        needs: Needs,
    ) -> None:
        super().__init__(files, inputs)
        features, names, _ = described[storage.dirname(files[0].entry.path)]
        texts = with_texts(start)
        images = choose_images(start, texts, features, settings, needs) if needs.image else ImageChoice()
        columns = tuple(name for name in start.columns if name not in images.features)
        types = {name: kind for name, kind in (start.column_types or {}).items() if name in columns}
        # If the records hold the images, a file name beside them does not name a further image.
        table = dataclasses.replace(texts if images.files else start, columns=columns, column_types=types)
        objects = find_objects(start, features, settings, needs, image=images.image, usual=_LABELS)
        if objects and not objects.is_normalized:
            self.notes.append("the boxes are in pixels")
        lacks = "no feature 'label'"
        if images.files is not None and not (settings.image_column or settings.image_path):
            self.notes.append(f"image files from feature {images.files.image_column!r}")
        label = None
        if not objects:
            label = choose_label(table, settings, needs, declared=features.labels, first=_LABELS, lacks=lacks)
        named = objects.label if objects else label or ""
        if named and settings.label_type is LabelType.CLASS:
            _refuse_byte_labels(start, named)
        is_imagenet = (
            label == _IMAGENET[0] and {*_IMAGENET} <= {*columns} and not (needs.class_names or selection.classes)
        )
        if is_imagenet and settings.key_column is None:
            settings = change_settings(settings, key_column=_IMAGENET[-1])
        has_several = label in features.several
        cells = self._take_columns(
            table,
            images.files or settings,
            needs,
            label,
            has_several=has_several,
            has_mask=images.mask is not None,
            images=images.images,
            names_files=images.files is not None,
        )
        if is_imagenet and settings.label_type is LabelType.CLASS:
            cells = dataclasses.replace(cells, text=_IMAGENET[1])
            self._describe(labels_are_numbered=True, text_column="")
        class_names = {folder: one.class_names.get(named, ()) for folder, one in described.items()}
        # If datasets have different classes, the labels, which are names, determine the classes.
        common = names.get(named, ()) if len(set(class_names.values())) == 1 else ()
        by_feature = _names_by_feature(described)
        seen, kept = self.description, None
        if needs.records is not None:
            kept, notes = _keep_records(files, {*start.columns} - of_folders, form, needs.records, by_feature)
            self.notes += notes
            seen = dataclasses.replace(seen, columns=tuple(sorted(kept.columns)))
            if unused := sorted(of_folders - {*cells.needed}):
                self.notes.append(f"the records are stored without the columns of folders: {', '.join(unused)}")
        self._describe(
            columns=seen.columns,
            kept_layout=kept,
            provides=seen.provides
            | ({Content.OBJECTS, Content.LABEL} if objects else frozenset())
            | ({Content.RECORDS} if kept else frozenset()),
            used={*images.used, *(objects.features if objects else ()), *cells.needed},
            class_names=common,
            column_classes={
                name: by_feature[name][0] if len({*by_feature[name]}) == 1 else ()
                for name in features.labels
                if name in (needs.columns or ())
            },
            labels_may_be_indices=not any(class_names.values()) and not seen.labels_are_numbered,
            first_class=objects.first_class if objects else 0,
        )
        splits = splits_of(files)
        if needs.splits.are_auto and not (splits or settings.split_column):
            splits = record_splits(files) if settings.split_column is None else {}
        if cells.columns.split is None:
            self._note_splits(splits)
        lengths = {
            path: length
            for path in (file.entry.path for file in files)
            if (length := described[storage.dirname(path)].length_of(path)) is not None
        }
        of, self._image_root = cells.columns, paths.image_root
        self._roots = pair_roots(files, paths.image_root)
        roots = {file.entry.path: one.own or one.every for file, one in zip(files, self._roots, strict=True)}
        self.read_container: ReadTfrecord = ReadTfrecord(
            cells,
            image=images.image or None,
            class_names=class_names,
            splits=splits,
            pixels=images.pixels,
            objects=objects,
            mask=images.mask,
            lengths=lengths,
            kept=kept,
            held=HeldImages(images.named, images.lists) if images.named else None,
            files=NamedFiles(of.images, of.lists, of.patterns, roots, paths.allow_outside_root)
            if images.files
            else None,
            form=RecordForm.BYTES if kept else form,
        )

    def check_images(self) -> None:
        """See `Source.check_images`."""
        table, files = self.description.table, self.read_container.files
        if files is None and self._image_root:
            raise RequestError(
                f"`image_root={','.join(self._image_root)}`: no feature of the records names image files; leave "
                "it out, or name the feature with `image_column`",
                code="setting_not_applicable",
            )
        if files is not None and table is not None:
            refuse_missing(table, self.read_container.cells.columns, self._roots[0].every)


def recognises() -> bool:
    """Never: the frames of a sequence may be one sample or many, so only the request says that they are samples."""
    return False


def open_input(
    inputs: Inputs, spec: SourceSpec, table: TableSettings, selection: Selection, paths: PathSettings, joined: Joins
) -> MakeSource:
    """Finds the files, and reads their first records and metadata.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    if spec.source != FRAMES and (datasets := find_datasets(inputs.paths)):
        return open_datasets(datasets, joined, inputs, table)
    tree = find_record_tree(inputs, selection)
    described = {
        folder: describe_folder(folder) if folder in tree.described else RecordMetadata(Features(), {}, {})
        for folder in {storage.dirname(file.entry.path) for file in tree.files}
    }
    first, form = _read_first(tree.files, are_frames=spec.source == FRAMES)
    start, notes = add_columns(first, [*tree.partitions.values()])
    of_folders = frozenset(start.columns) - {*first.columns}

    def make(needs: Needs) -> TfrecordSource:
        files, said, found = tree.files, inputs, [*tree.notes, *notes]
        if form is RecordForm.BYTES and needs.records is None:
            _refuse_sequences(
                _container_of(next(file for file in files if file.entry.path == first.path)), first.columns
            )
        if needs.splits.folders and (placed := place_files(files, needs.splits.folders)):
            if left := {file.entry.path for file in files} - {file.entry.path for file in placed}:
                found.append(f"not read, because they are in no folder of `splits`: {count_files(left)}")
            files, said = placed, dataclasses.replace(inputs, splits=dict.fromkeys(inputs.paths, ""))
            needs = dataclasses.replace(needs, splits=Splits())
        source = TfrecordSource(files, start, described, said, table, selection, paths, form, of_folders, needs)
        source.read_container = dataclasses.replace(source.read_container, partitions=tree.partitions)
        source.notes[:0] = found
        return source

    return make


def _container_of(file: InputFile) -> Container:
    return Container.of(file.entry, key_prefix="")


def _read_first(files: Sequence[InputFile], *, are_frames: bool) -> tuple[FirstRows, RecordForm]:
    """Reads the first records of the file with the most features; of several, of the first one.

    The records of some splits have no label. Spark writes empty files, and others may be damaged.

    Returns:
      The records, and their form.

    Raises:
      RequestError: no file has a record that can be read.
    """
    asked = RecordForm.FRAMES if are_frames else None
    errors: list[tuple[str, SampleError]] = []
    richest: tuple[InputFile, RecordForm] | None = None
    most = 0
    for place, file in enumerate(dict.fromkeys([*choose_evenly(files, _FILES), *files])):
        if place >= _FILES and richest:
            break
        try:
            found, form = read_first_records(_container_of(file), asked, most=_LOOKED)
        except SampleError as error:
            errors.append((file.entry.path, error))
            continue
        if len(found.columns) > most:
            richest, most = (file, form), len(found.columns)
    if richest:
        return read_first_records(_container_of(richest[0]), richest[1])
    path, first = next((one for one in errors if one[1].reason is not FailureReason.EMPTY), errors[0])
    what = "a TFRecord file of sequences" if are_frames else "a TFRecord file"
    raise RequestError(f"{quote_input(path)} is not {what}: {first.detail}", code="invalid_file") from first


def _refuse_byte_labels(start: FirstRows, label: str) -> None:
    """Refuses labels whose bytes are not texts, such as those of NumPy's numbers and of serialized tensors."""
    cells = [row.get(label) for row in start.first_rows]
    parts = [part for cell in cells for part in (cell if isinstance(cell, list) else [cell])]
    for value in parts:
        # The bytes of some small numbers are blanks.
        if isinstance(value, bytes) and value and not (is_label(value) and value.strip()):
            raise RequestError(
                f"{quote_input(start.path)}: the feature {label!r} has bytes that are no text, such as {value[:12]!r}; "
                "expected texts or numbers; name another feature with `label_column`, or leave the labels out",
                [Suggestion("images without labels", {"label_column": None, "layout": "image"})],
                code="column_without_labels",
            )


def _refuse_sequences(container: Container, context: Sequence[str]) -> NoReturn:
    """Refuses records that are sequences; suggests to take their frames as samples, or to keep the records."""
    with contextlib.suppress(SampleError):
        frames, _ = read_first_records(container, RecordForm.FRAMES)
        lists = ", ".join(name for name in frames.columns if name not in context)
        of_frames = {"source": FRAMES} if has_images(frames) else {"source": FRAMES, "layout": ALL_COLUMNS}
        shown = f"lists of frames ({lists or 'none'}) beside the features {', '.join(context) or 'none'}"
        raise RequestError(
            f"{quote_input(container.uri)}: each record is a SequenceExample, with {shown}; expected an Example",
            [
                Suggestion("each frame as a sample", of_frames),
                Suggestion("the records as they are", {"layout": SAME}),
            ],
            code="sequence_examples",
        )
    raise RequestError(
        f"{quote_input(container.uri)}: each record is a SequenceExample whose lists have different lengths, so that "
        "they are no frames; expected an Example",
        [Suggestion("the records as they are", {"layout": SAME})],
        code="sequence_examples",
    )


def _keep_records(
    files: Sequence[InputFile],
    columns: Collection[str],
    form: RecordForm,
    given: Layout,
    class_names: Mapping[str, Sequence[Sequence[str]]],
) -> tuple[Layout, Sequence[str]]:
    """Returns the layout of records that are stored as they are, and notes.

    Args:
      files: the files.
      columns: features of the first records.
      form: the form of the records.
      given: features that the request states; if these are all, no file is read.
      class_names: as in `find_kept_layout`.

    Raises:
      RequestError: the frames of the records are the samples, or the records do not have one layout.
    """
    if form is RecordForm.FRAMES:
        raise RequestError(
            f"`source={FRAMES}`: `layout={SAME}` stores whole records; use `source={RECORDS}`",
            code="conflicting_settings",
        )
    sequences = "the records are SequenceExamples; readers of examples see their context alone"
    notes = [sequences] if form is RecordForm.BYTES else []
    if given.features and given.columns.issuperset(columns):
        return given, notes
    layout, others = find_kept_layout(files, given, class_names)
    if not layout.features:
        raise RequestError(
            f"{quote_input(files[0].entry.path)}: the first records have no features, so that `layout={SAME}` has "
            "nothing to describe",
            code="missing_content",
        )
    return layout, [*notes, *others]


def _names_by_feature(described: Mapping[str, RecordMetadata]) -> dict[str, list[Sequence[str]]]:
    """Returns feature -> its class names in each folder; empty where a folder has none."""
    names = {name for one in described.values() for name in one.features.labels}
    return {name: [one.class_names.get(name, ()) for one in described.values()] for name in names}
