"""Opens the source of a build, with a layout that fits its contents."""

from __future__ import annotations

import dataclasses
import json

from beam_tfrecords.beam_pipelines.build.checks.settings import Reading, refuse_idle_settings
from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.examples.column_ranges import expand_columns
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.examples.layouts import (
    CAPTIONS,
    COLUMNS,
    EVERY_COLUMN,
    TFDS_OBJECTS,
    Layout,
    parse_layout,
    resolve_types,
    table_layout,
    with_images,
    with_values,
)
from beam_tfrecords.transforms.images.image_spec import ImageEncoding
from beam_tfrecords.transforms.request.build_spec import BuildSpec, needs_of
from beam_tfrecords.transforms.settings import change_settings
from beam_tfrecords.transforms.sources.detect.judge import describe_unused
from beam_tfrecords.transforms.sources.detect.roles import parse_cell
from beam_tfrecords.transforms.sources.opening import open_input
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tables.table import first_cells
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType

# Index columns that are measured on pixels.
QUALITY = frozenset({"brightness", "contrast", "sharpness", "phash"})
# Advice if a source does not provide a content of the layout, images apart.
_REMEDIES = {
    Content.MASK: "give folders, a table or a folder of Pascal VOC, or choose another `layout`",
    Content.OBJECTS: "name the source that has them, such as `source=coco`, or choose another `layout`",
    Content.POLYGONS: "use `layout=detection` for the boxes alone",
    Content.KEYPOINTS: "use `layout=detection` for the boxes alone",
    Content.COLUMNS: "give a table as `input` or another `layout`",
    Content.CAPTIONS: "give a table as `input` or another `layout`",
    Content.LABEL: "choose another `layout`, such as `layout=image`",
}


def open_spec_source(spec: BuildSpec) -> tuple[BuildSpec, Source]:
    """Opens the source, and resolves a layout that depends on the source's contents.

    Raises:
      RequestError: the source cannot be opened, or does not provide what the layout needs.
    """
    layout = spec.layout
    # For images with objects, `tfds` means the features with objects.
    may_have_objects = layout in (None, parse_layout("tfds"))
    needs_label = layout is not None and layout.needs_label
    needs, table = spec.needs, spec.source.table
    first = dataclasses.replace(needs, label=needs_label, objects=may_have_objects or needs.objects)
    opened = open_input(spec.source, first, spec.input_function)
    source = opened.source(first)
    if layout is not None and (ranged := _expand_columns(layout, source, has_map=spec.map is not None)) != layout:
        layout = ranged
        source = opened.source(dataclasses.replace(first, columns=layout.columns))
    has_masks = Content.MASK in source.provides
    if layout is None and (has_masks or source.provides == {Content.IMAGE, Content.CAPTIONS}):
        layout, may_have_objects = parse_layout("segmentation" if has_masks else CAPTIONS), False
        source = opened.source(dataclasses.replace(needs, columns=layout.columns, label=False, objects=False))
    _check_mask_settings(spec, layout)
    if Content.OBJECTS in source.provides and may_have_objects:
        layout = parse_layout(TFDS_OBJECTS if layout else "detection")
        source = opened.source(dataclasses.replace(needs, columns=layout.columns, label=False, objects=True))
    if layout is not None:
        _check_contents(spec, source, layout)
    if layout == EVERY_COLUMN:
        if not source.column_types:
            raise RequestError(
                f"`layout=columns`: {source.name} does not declare the types of columns; a spec file can say them: "
                f"{_column_layout(source)}",
                code="missing_column_type",
            )
        cells = first_cells(source.table, list(source.column_types)) if source.table else {}
        lists = {name for name, values in cells.items() if any(isinstance(value, list) for value in values)}
        layout = table_layout(source.column_types, lists)
        source = opened.source(dataclasses.replace(needs, columns=layout.columns, label=False))
    elif layout is None and Content.IMAGE in source.provides:
        has_several = table.label_separator or table.label_columns or table.group_rows
        has_several = has_several and table.label_type is LabelType.CLASS
        layout = parse_layout("multilabel" if has_several else "tfds")
        source = opened.source(dataclasses.replace(needs, columns=layout.columns, label=True))
        if Content.LABEL not in source.provides:
            layout = parse_layout("image")
        if source.has_several_labels and not has_several:
            layout = parse_layout("multilabel")
            source = opened.source(dataclasses.replace(needs, columns=layout.columns, label=True))
    if layout is not None and table.label_type is not LabelType.CLASS:
        layout = _with_label_values(layout, spec, source)
        source = opened.source(dataclasses.replace(needs, columns=layout.columns, label=False))
    if layout is None:
        raise _without_images(spec, source, needs_label=True)
    if table.label_separator and any(field.startswith("label.") for field in layout.fields):
        raise RequestError(
            f"`label_separator={table.label_separator}`: the layout holds one label per sample; "
            "use `layout=multilabel`, or ask for labels.index",
            code="single_label_layout",
        )
    layout = with_images(layout, source.images)
    grouped = change_settings(spec.source, group_rows=table.group_rows or source.groups_rows)
    given, spec = spec, dataclasses.replace(spec, layout=resolve_types(layout, source.column_types), source=grouped)
    refuse_idle_settings(given, Reading(spec, source))
    if spec.where is not None:
        _check_condition(spec, spec.where)
    source.check_images()
    spec = dataclasses.replace(spec, needs=needs_of(spec))
    if source.table is not None and not spec.needs.takes_all:
        source.notes += describe_unused(source.table, _used_columns(spec, source), source.other_images)
    return spec, source


def _expand_columns(layout: Layout, source: Source, *, has_map: bool) -> Layout:
    """Returns the layout with the columns of each feature that has several.

    Raises:
      RequestError: the source does not have them, or they are unclear.
    """
    features = []
    for feature in layout.features:
        # Some of the columns that a function returns are not those of the source.
        is_made = has_map and not {*feature.read_columns} <= {*source.columns}
        columns = () if is_made else tuple(source.columns)
        if feature.field.startswith(COLUMNS) and not (feature.columns and {*feature.columns} <= {*columns}):
            found = expand_columns(feature.field, columns, where=f"`layout`: feature {feature.name!r}: {feature.field}")
            feature = dataclasses.replace(feature, columns=found, length=len(found))
        features.append(feature)
    return Layout(tuple(features))


def _used_columns(spec: BuildSpec, source: Source) -> set[str | None]:
    """Returns the columns of the source that the layout stores, or that decide what is stored."""
    needs = spec.needs
    is_label = needs.label or needs.objects or source.label_column in (needs.columns or ())
    return {name for name in source.used if is_label or name != source.label_column}


def _check_condition(spec: BuildSpec, where: str) -> None:
    """Refuses a condition that cannot be parsed, or that no sample can satisfy."""
    # Most requests do not need pyarrow here.
    from beam_tfrecords.transforms.blocks.filtering import Condition

    named = Condition(where, spec.layout or Layout(())).names
    quality = sorted(named & QUALITY)
    if quality and spec.image.image_encoding is ImageEncoding.KEEP:
        raise RequestError(
            f"`where={where}`: {', '.join(quality)} of kept files are not measured; expected another `image_encoding`",
            code="quality_not_measured",
        )


def _check_contents(spec: BuildSpec, source: Source, layout: Layout) -> None:
    """Refuses a layout that needs contents that the source lacks; a user's function may provide all except images."""
    missing = [content for content in _REMEDIES if content in layout.required - source.provides]
    if missing and spec.map is None:
        is_column = missing[0] is Content.COLUMNS and layout.columns
        what = f"column.{min(layout.columns)}" if is_column else missing[0].value
        raise RequestError(
            f"the layout needs {what}, and `input={spec.source.input[0]}` is read as {source.name}, which has none; "
            f"{_REMEDIES[missing[0]]}",
            code="missing_content",
        )
    if Content.IMAGE in layout.required - source.provides:
        raise _without_images(spec, source, needs_label=layout.needs_label)


def _without_images(spec: BuildSpec, source: Source, *, needs_label: bool) -> RequestError:
    """Returns the error for a table without images, with suggestions that find them."""
    suggestions = [*source.column_suggestions(needs_label=needs_label)]
    alone = f"; a spec file can request a dataset of columns only: {_column_layout(source)}"
    if source.column_types:
        suggestions, alone = [*suggestions, Suggestion("a dataset of the columns only", {"layout": "columns"})], ""
    return RequestError(
        f"`input={spec.source.input[0]}`: no column has a usual name for images, such as image or "
        "path; name it with `image_column`, or make paths with `image_path`; it has: "
        f"{', '.join(source.columns)}{alone}",
        suggestions,
        code="missing_image_column",
    )


def _check_mask_settings(spec: BuildSpec, layout: Layout | None) -> None:
    """Refuses mask settings for a layout without masks."""
    named = next(iter(spec.source.mask_settings), None)
    if named and not (layout is not None and layout.needs_mask):
        raise RequestError(
            f"`{named}`: the layout has no masks; use `layout=segmentation`, or leave `{named}` out",
            code="setting_not_applicable",
        )


def _with_label_values(layout: Layout, spec: BuildSpec, source: Source) -> Layout:
    label_type = spec.source.table.label_type
    if source.label_column is None or not layout.needs_label:
        what = (
            "the layout has none" if source.label_column else f"`input={spec.source.input[0]}` has no column of labels"
        )
        raise RequestError(
            f"`label_type={label_type.value}` is about the labels of a table, and {what}; name the column with "
            "`label_column`, or leave `label_type` out",
            code="setting_not_applicable",
        )
    kind = "float" if label_type is LabelType.FLOAT else "bytes"
    cells = first_cells(source.table, [source.label_column])[source.label_column] if source.table else []
    are_lists = any(isinstance(parse_cell(cell) if kind == "float" else cell, list) for cell in cells)
    return with_values(layout, source.label_column, kind, several=are_lists or spec.source.table.group_rows)


def _column_layout(source: Source) -> str:
    column = source.columns[0]
    return f"layout: {json.dumps({column: {'field': f'column.{column}', 'type': 'bytes'}})}"
