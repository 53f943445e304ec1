"""Checks the request against what its output and its source contain, before anything starts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.annotation_checking import check_annotations
from beam_tfrecords.dataset import read_latest
from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.examples.layouts import (
    CAPTIONS,
    EVERY_COLUMN,
    TFDS_OBJECTS,
    Layout,
    parse_layout,
    resolve_types,
    table_layout,
    with_images,
    with_values,
)
from beam_tfrecords.files import SUCCESS
from beam_tfrecords.label_files import fits_label_file
from beam_tfrecords.transforms.labels import (
    ClassNames,
    describe_labels,
    describe_order,
    describe_unique,
    infer_class_names,
    keep_indices,
    name_numbered,
)
from beam_tfrecords.transforms.refs import Scalar
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.detect.table_sidecars import is_table
from beam_tfrecords.transforms.sources.detect.trial import is_usable
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.opening import open_input
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.selection import OTHER_CLASS
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import MASK_SETTINGS, LabelType, Skipped
from beam_tfrecords.transforms.sources.unsupported_formats import find_unsupported
from beam_tfrecords.transforms.workspace.output_folder import check_versions_root, find_old_files
from beam_tfrecords.versions import check_pointers, list_versions

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

_MOST_CLASSES = 10
_MOST_CHOICES = 3
# Sources that read folders of files which are not images -> what they read.
_READ_BY_FILES = {
    "tfrecord": "the records of the TFRecord files",
    "idx": "the images of the IDX files",
    "cifar": "the images of CIFAR's files",
    "numpy": "the images of the NumPy files",
}

# What to do if a source does not provide what the layout needs, images apart.
_REMEDIES = {
    Content.MASK: "give folders, a table or a folder of Pascal VOC, or choose another `layout`",
    Content.OBJECTS: "name the source that has them, such as `source=coco`, or choose another `layout`",
    Content.OUTLINES: "say `layout=detection` for the boxes alone",
    Content.KEYPOINTS: "say `layout=detection` for the boxes alone",
    Content.COLUMNS: "give a table as `input` or another `layout`",
    Content.CAPTIONS: "give a table as `input` or another `layout`",
    Content.LABEL: "choose another `layout`, such as `layout=image`",
}


def check_output(spec: BuildSpec) -> list[str]:
    """Refuses an output where a build would damage what is there.

    Returns:
      The files that the build replaces, as `find_old_files` does.

    Raises:
      RequestError: the output holds a finished dataset that may not be replaced, or files that are not ours.
    """
    versioned = spec.schedule.versioned
    try:
        is_finished = storage.exists(storage.join(spec.output, SUCCESS))
        has_versions = not versioned and (
            bool(read_latest(spec.output)) or any(version.published for version in list_versions(spec.output))
        )
    except (OSError, storage.SchemeError) as error:
        raise RequestError(f"`output={spec.output}`: cannot be reached: {error}") from error
    if versioned and is_finished:
        raise RequestError(f"`output={spec.output}`: holds a dataset without versions; choose another folder")
    if has_versions:
        raise RequestError(
            f"`output={spec.output}`: holds versions of a dataset; say `versioned`, or choose another folder"
        )
    if is_finished and not spec.overwrite:
        raise RequestError(
            f"`output={spec.output}`: holds a finished dataset; say `overwrite` to replace it, or choose another folder"
        )
    if versioned:
        check_versions_root(spec.output)
        check_pointers(spec.output)
        return []
    return find_old_files(spec.output)


def open_spec_source(spec: BuildSpec) -> tuple[BuildSpec, Source]:
    """Opens the source, and resolves a layout that depends on what the source contains.

    Raises:
      RequestError: the source cannot be opened, or does not contain what the layout asks for.
    """
    layout = spec.layout
    # Of images with objects, `tfds` stores these.
    may_have_objects = layout in (None, parse_layout("tfds"))
    needs_label = layout is not None and layout.needs_label
    needs_objects = may_have_objects or spec.source.needs_objects
    request = dataclasses.replace(spec.source, needs_label=needs_label, needs_objects=needs_objects)
    opened = open_input(request)
    source = opened.source(request)
    has_masks = Content.MASK in source.provides
    if layout is None and (has_masks or source.provides == {Content.IMAGE, Content.CAPTIONS}):
        layout, may_have_objects = parse_layout("segmentation" if has_masks else CAPTIONS), False
        request = dataclasses.replace(spec.source, columns=layout.columns, needs_label=False, needs_objects=False)
        source = opened.source(request)
    _check_mask_settings(spec, layout)
    if Content.OBJECTS in source.provides and may_have_objects:
        layout = parse_layout(TFDS_OBJECTS if layout else "detection")
        source = opened.source(
            dataclasses.replace(spec.source, columns=layout.columns, needs_label=False, needs_objects=True)
        )
    if layout is not None:
        _check_contents(spec, source, layout)
    if layout == EVERY_COLUMN:
        if not source.column_types:
            raise RequestError(
                f"`layout=columns`: {source.name} does not declare the types of columns; a spec file can say them: "
                f"{_column_layout(source)}"
            )
        layout = table_layout(source.column_types)
        source = opened.source(dataclasses.replace(spec.source, columns=layout.columns, needs_label=False))
    elif layout is None and Content.IMAGE in source.provides:
        has_several = spec.source.label_separator or spec.source.label_columns or spec.source.group_rows
        has_several = has_several and spec.source.label_type is LabelType.CLASS
        layout = parse_layout("multilabel" if has_several else "tfds")
        source = opened.source(dataclasses.replace(spec.source, columns=layout.columns, needs_label=True))
        if source.has_several_labels and not has_several:
            layout = parse_layout("multilabel")
            source = opened.source(dataclasses.replace(spec.source, columns=layout.columns, needs_label=True))
    if layout is not None and spec.source.label_type is not LabelType.CLASS:
        layout = _with_label_values(layout, spec, source)
        source = opened.source(dataclasses.replace(spec.source, columns=layout.columns, needs_label=False))
    if layout is None:
        raise _without_images(spec, source, needs_label=True)
    if spec.source.label_separator and any(field.startswith("label.") for field in layout.fields):
        raise RequestError(
            f"`label_separator={spec.source.label_separator}`: the layout holds one label per sample; "
            "say `layout=multilabel`, or ask for labels.index"
        )
    layout = with_images(layout, source.images)
    grouped = dataclasses.replace(spec.source, group_rows=spec.source.group_rows or source.groups_rows)
    return dataclasses.replace(spec, layout=resolve_types(layout, source.column_types), source=grouped), source


def _check_contents(spec: BuildSpec, source: Source, layout: Layout) -> None:
    """Refuses a layout that needs what the source does not provide."""
    missing = [content for content in _REMEDIES if content in layout.required - source.provides]
    if missing:
        is_column = missing[0] is Content.COLUMNS and layout.columns
        what = f"column.{min(layout.columns)}" if is_column else missing[0].value
        raise RequestError(
            f"the layout needs {what}, and `input={spec.source.input[0]}` is read as {source.name}, which has none; "
            f"{_REMEDIES[missing[0]]}"
        )
    if Content.IMAGE in layout.required - source.provides:
        raise _without_images(spec, source, needs_label=layout.needs_label)


def _without_images(spec: BuildSpec, source: Source, *, needs_label: bool) -> RequestError:
    """The refusal of a table without images, with what finds them."""
    suggestions = [*source.column_suggestions(needs_label=needs_label)]
    alone = f"; a spec file may say a dataset of columns alone: {_column_layout(source)}"
    if source.column_types:
        suggestions, alone = [*suggestions, Suggestion("a dataset of the columns alone", {"layout": "columns"})], ""
    return RequestError(
        f"`input={spec.source.input[0]}`: no column has the usual name of a column with images, such as image or "
        "path; name it with `image_column`, or make paths with `image_path`; it has: "
        f"{', '.join(source.columns)}{alone}",
        suggestions,
    )


def _check_mask_settings(spec: BuildSpec, layout: Layout | None) -> None:
    """Refuses settings of masks for a layout without masks."""
    named = next((name for name in MASK_SETTINGS if getattr(spec.source, name)), None)
    if named and not (layout is not None and layout.needs_mask):
        raise RequestError(f"`{named}`: the layout has no masks; say `layout=segmentation`, or leave `{named}` out")


def _with_label_values(layout: Layout, spec: BuildSpec, source: Source) -> Layout:
    label_type = spec.source.label_type
    if source.label_column is None or not layout.needs_label:
        what = (
            "the layout has none" if source.label_column else f"`input={spec.source.input[0]}` has no column of labels"
        )
        raise RequestError(
            f"`label_type={label_type.value}` is about the labels of a table, and {what}; name the column with "
            "`label_column`, or leave `label_type` out"
        )
    kind = "float" if label_type is LabelType.FLOAT else "bytes"
    return with_values(layout, source.label_column, kind, several=spec.source.group_rows)


def _column_layout(source: Source) -> str:
    column = source.columns[0]
    return f"layout: {json.dumps({column: {'field': f'column.{column}', 'type': 'bytes'}})}"


def check_listing(
    spec: BuildSpec, source: Source, listing: Listing, skipped: Skipped, *, earlier: Sequence[str] = ()
) -> ClassNames:
    """Checks the request against the listed samples, and resolves the class names.

    Args:
      earlier: the classes of the dataset whose indices may be kept, in index order.

    Raises:
      RequestError: there are no samples, or their labels or splits do not match the request.
    """
    where = f"`input={', '.join(spec.source.input)}`"
    if not listing.total and skipped.counts[OTHER_CLASS]:
        raise RequestError(
            f"`classes={','.join(spec.source.classes)}`: no sample has one of these classes, and "
            f"{skipped.counts[OTHER_CLASS]:,} have others"
        )
    if not listing.total:
        inside = "" if source.containers() is None else _describe_archives(skipped)
        found = f"{where}: no {source.unit} found{_describe_skipped(skipped)}{inside}"
        raise RequestError(found, _other_inputs(spec, skipped))
    if spec.source.label_pattern is not None and not any(label is not None for label in listing.labels):
        raise RequestError(
            f"`label_pattern={spec.source.label_pattern}`: matches none of {listing.total} keys; "
            "it is searched in the path below `input`"
        )
    spec.source.selection.check(listing.labels)
    check_annotations(spec, source, listing)
    source.notes += _describe_empty_splits(spec, listing)
    if spec.num_shards is not None:
        for split, samples in listing.samples.items():
            if split and samples < spec.num_shards:
                raise RequestError(f"`num_shards={spec.num_shards}`: split {split} has only {samples} samples")
    return _resolve_classes(spec, source, listing, earlier)


def _resolve_classes(spec: BuildSpec, source: Source, listing: Listing, earlier: Sequence[str]) -> ClassNames:
    """The class names: those of the request, of the columns, of the source, or of the labels that were listed."""
    if spec.layout is None or not (spec.layout.needs_label or spec.layout.needs_objects):
        return ClassNames(spec.class_names or ())
    if spec.class_names is None and spec.source.label_columns:
        source.notes += [
            f"no row has a one in column {name!r}" for name in spec.source.label_columns if not listing.labels.get(name)
        ]
        return _number_classes(spec, source, listing, ClassNames(spec.source.label_columns), earlier)
    source.notes += _describe_one_hot(spec, source, listing)
    if spec.class_names is not None:
        return _check_given(spec, source, listing, ClassNames(spec.class_names, source.labels_may_be_indices))
    if source.class_names:
        return _number_classes(spec, source, listing, ClassNames(tuple(source.class_names)), earlier)
    if source.labels_are_numbered:
        return _number_classes(spec, source, listing, name_numbered(listing.labels), earlier)
    inferred = infer_class_names(
        listing.labels, numbers_are_indices=source.labels_may_be_indices, first_class=source.first_class
    )
    if not earlier:
        _refuse_single_class(spec, source, listing, inferred)
    numbered = _number_classes(spec, source, listing, inferred, earlier)
    in_cells = source.labels_may_be_indices and spec.source.label_separator is None
    source.notes += describe_labels(listing.labels, numbered, in_cells=in_cells)
    if source.labels_may_be_indices:
        source.notes += describe_unique(listing.labels)
    return numbered


def _refuse_single_class(spec: BuildSpec, source: Source, listing: Listing, found: ClassNames) -> None:
    """Refuses labels that tell nothing apart: what was taken for the label is probably not one."""
    count = sum(count for label, count in listing.labels.items() if label is not None and label != "")
    is_said = spec.source.classes or spec.source.label_separator or listing.total == spec.limit
    has_objects = spec.layout is not None and spec.layout.needs_objects
    # Where more samples than allowed have no label, the build says which.
    if len(listing.labels.keys() - {None, ""}) != 1 or listing.total - count > spec.max_failures * listing.total:
        return
    if is_said or has_objects:
        return
    name = found.names[-1]
    beside, others = source.other_labels()
    single = Suggestion(f"the class {name}", {"class_names": name})
    unlabelled = Suggestion("all images, without labels", {"layout": "image"})
    raise RequestError(
        f"`input={', '.join(spec.source.input)}`: {printable(name)} would be the only class, of all {count:,} "
        f"{source.unit}s{beside}",
        [
            *others[:1],
            *([single] if "," not in name and name == name.strip() and fits_label_file(name) else []),
            *([unlabelled] if Content.IMAGE in source.provides else []),
        ],
    )


def _check_given(spec: BuildSpec, source: Source, listing: Listing, class_names: ClassNames) -> ClassNames:
    """Checks that the labels are among the class names of the request, but for as many as may fail."""
    unknown: dict[Scalar, int] = {
        label: count for label, count in listing.labels.items() if label is not None and class_names.find(label) is None
    }
    samples = sum(unknown.values())
    if samples > spec.max_failures * listing.total:
        shown = ", ".join(sorted(map(repr, unknown))[:5])
        present = {class_names.find(label) for label in listing.labels}
        known = [name for index, name in enumerate(class_names.names) if index in present]
        fits = not spec.source.classes and 0 < len(known) <= 2 * _MOST_CLASSES
        raise RequestError(
            f"`class_names={','.join(class_names.names)}`: {samples} of {listing.total} samples have a class "
            f"that is not among them: {shown}{', …' if len(unknown) > 5 else ''}"
            + (f"; say `classes={','.join(known)}` to leave them out" if fits else "")
        )
    source.notes += _describe_missing_classes(spec, listing, class_names)
    return _check_names(class_names)


def _number_classes(
    spec: BuildSpec, source: Source, listing: Listing, found: ClassNames, earlier: Sequence[str]
) -> ClassNames:
    """The classes that the request does not name, with their indices; adds notes."""
    numbered = keep_indices(earlier, found, spec.order_of_classes)
    source.notes += describe_order(found.names, numbered.names)
    source.notes += _describe_missing_classes(spec, listing, numbered)
    return _check_names(numbered)


def _check_names(class_names: ClassNames) -> ClassNames:
    """Refuses names that the label file of TFDS cannot hold."""
    unfit = [name for name in class_names.names if not fits_label_file(name)]
    if unfit:
        raise RequestError(
            f"class {unfit[0]!r} begins or ends with a space or holds a line break, and TensorFlow Datasets would read "
            "another name; rename the class in the input"
        )
    return class_names


def _describe_empty_splits(spec: BuildSpec, listing: Listing) -> list[str]:
    """A note on the splits that the request names and that got no sample."""
    asked = spec.splits.fractions or (spec.splits.folders or {}).values()
    empty = [split for split in asked if not listing.samples[split]]
    return [f"`splits` asks for {', '.join(empty)}, which got none of {listing.total:,} samples"] if empty else []


def _describe_one_hot(spec: BuildSpec, source: Source, listing: Listing) -> Iterator[str]:
    """The note that a label of zeros and ones may be one of several columns that are a class each."""
    column = source.label_column
    if column is None or spec.source.label_separator or not {str(label) for label in listing.labels} <= {"0", "1"}:
        return
    columns = source.one_hot_columns()
    if column in columns and len(columns) > 1:
        yield (
            f"columns {', '.join(columns)} have zeros and ones, and {column!r} alone is the label; if each is a class, "
            f"say `label_columns={','.join(columns)}`"
        )


def _describe_missing_classes(spec: BuildSpec, listing: Listing, class_names: ClassNames) -> Iterator[str]:
    """Notes on the splits that lack classes which others have."""
    if spec.limit is not None:
        return
    found = {
        split: {index for label in labels if (index := class_names.find(label)) is not None}
        for split, labels in listing.split_labels.items()
        if split
    }
    everywhere = set[int]().union(*found.values())
    for split, indices in sorted(found.items()):
        missing = [class_names.names[index] for index in sorted(everywhere - indices)]
        if missing:
            shown = ", ".join(missing[:_MOST_CLASSES]) + (", …" if len(missing) > _MOST_CLASSES else "")
            yield f"split {split} has no sample of {len(missing):,} of {len(everywhere):,} classes: {shown}"


def _other_inputs(spec: BuildSpec, skipped: Skipped) -> list[Suggestion]:
    """The files of a folder without images that may be meant."""
    folder = spec.source.input[0]
    if len(spec.source.input) > 1 or not storage.is_folder(folder):
        return []
    keys = sorted(key for keys in skipped.examples.values() for key in keys)
    # Of several archives of arrays, each is a dataset.
    found = {source_of_file(key) for key in keys if not key.endswith(".npz")}
    of_files = [Suggestion(meaning, {"source": name}) for name, meaning in _READ_BY_FILES.items() if name in found]
    if of_files:
        return of_files
    if parquet := [key for key in keys if key.endswith(".parquet")]:
        if is_usable(spec.source, {"source": "hf_parquet"}):
            return [Suggestion("the images in its Parquet files", {"source": "hf_parquet"})]
        if len(parquet) > 1:
            files = {"input": storage.join(folder, "**/*.parquet" if "/" in parquet[0] else "*.parquet")}
            return [Suggestion("its Parquet files", files)] if is_usable(spec.source, files) else []
    tables = [key for key in keys if is_table(key) or key.endswith((".json", ".npz"))]
    # A file of labels beside one of images has nothing to add.
    unsupported = [key for key in keys if find_unsupported(key) and "labels" not in storage.basename(key)]
    return [
        Suggestion(f"the file {key}", {"input": storage.join(folder, key)})
        for key in (tables + unsupported)[:_MOST_CHOICES]
    ]


def _describe_archives(skipped: Skipped) -> str:
    """What to do about archives in an archive; "" if there are none."""
    keys = [key for keys in skipped.examples.values() for key in keys]
    if not any(source_of_file(key) in ("tar", "zip") for key in keys):
        return ""
    return "; archives in an archive are not opened: extract it, and give the folder or the archives as `input`"


def _describe_skipped(skipped: Skipped) -> str:
    """The skipped files, for a message; "" if there are none."""
    if not skipped.counts:
        return ""
    kinds = [
        f"{count} {kind} ({', '.join(skipped.examples[kind])}{', …' if count > len(skipped.examples[kind]) else ''})"
        for kind, count in skipped.counts.most_common()
    ]
    return f"; {skipped.counts.total()} other files: {', '.join(kinds)}"
