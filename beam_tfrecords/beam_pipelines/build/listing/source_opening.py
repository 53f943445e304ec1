"""Opens the source of a build, with a layout that fits its contents."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection

from beam_tfrecords.beam_pipelines.build.checks.settings import refuse_idle_settings
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.column_ranges import expand_columns
from beam_tfrecords.features.contents import CLASSES, OUTLINES, Content
from beam_tfrecords.features.fields import CAPTIONS, COLUMN, COLUMNS, MASK_FIELD
from beam_tfrecords.features.layouts import (
    ALL_COLUMNS,
    EVERY_COLUMN,
    SAME,
    TFDS_OBJECTS,
    Layout,
    parse_layout,
    resolve_types,
    table_layout,
    with_images,
    with_values,
)
from beam_tfrecords.transforms.images.image_spec import ImageEncoding
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.settings import slice_of
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.column_suggestions import column_suggestions
from beam_tfrecords.transforms.sources.detect.roles import parse_cell
from beam_tfrecords.transforms.sources.inputs import keep_inputs, name_inputs
from beam_tfrecords.transforms.sources.opening import OpenedInput, open_input
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tables.table import first_cells
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType

# Advice if a source does not provide a content of the layout, images apart.
_REMEDIES = {
    Content.MASK: "give folders, a table or a folder of Pascal VOC, or choose another `layout`",
    Content.OBJECTS: "name the source that has them, such as `source=coco`, or choose another `layout`",
    **dict.fromkeys(OUTLINES, "use `layout=detection` for the boxes alone"),
    Content.KEYPOINTS: "use `layout=detection` for the boxes alone",
    Content.RECORDS: "give TFRecord files as `input`, or choose another `layout`",
    Content.COLUMNS: "give a table as `input` or another `layout`",
    Content.CAPTIONS: "give a table as `input` or another `layout`",
    Content.LABEL: "choose another `layout`, such as `layout=image`",
}


def open_spec_source(spec: BuildSpec) -> tuple[BuildSpec, Source]:
    """Opens the source, and resolves a layout that depends on the source's contents.

    Raises:
      RequestError: the source cannot be opened, or does not provide what the layout needs.
    """
    layout, needs = spec.layout, spec.needs
    if layout is None:
        needs = dataclasses.replace(needs, contents=needs.contents - {Content.LABEL})
    elif layout == parse_layout("tfds"):
        # For images with objects, it means the features with objects.
        needs = dataclasses.replace(needs, contents=needs.contents | {Content.OBJECTS})
    opened = open_input(slice_of(SourceSpec, spec), needs, spec.input_function)
    source = opened.read(needs)
    while (found := resolve_layout(spec, layout, source.description)) != layout:
        layout = found
        source = opened.read(dataclasses.replace(spec, layout=layout).needs)
    _check_mask_settings(spec, layout)
    if layout is not None:
        _check_contents(spec, source, layout)
    if layout is not None and layout.keeps_records:
        layout, source = _keep_records(spec, opened, source)
    if layout is not None and spec.label_type is not LabelType.CLASS:
        layout = _with_label_values(layout, spec, source.description)
        source = opened.read(dataclasses.replace(spec, layout=layout).needs)
    if layout is None:
        raise _without_images(spec, source.description, needs_label=True)
    if spec.label_separator and layout.has_single_label:
        raise RequestError(
            f"`label_separator={spec.label_separator}`: the layout holds one label per sample; "
            "use `layout=multilabel`, or ask for labels.index",
            code="single_label_layout",
        )
    seen = source.description
    layout = with_images(layout, seen.images)
    layout = resolve_types(layout, seen.column_types)
    given, spec = spec, dataclasses.replace(spec, layout=layout, group_rows=spec.group_rows or seen.groups_rows)
    refuse_idle_settings(given, spec, source)
    if spec.where is not None:
        _check_condition(spec, spec.where)
    return spec, source


def resolve_layout(spec: BuildSpec, layout: Layout | None, seen: Description) -> Layout | None:
    """Returns the layout that fits what a source has; the same one once nothing is left to decide. Pure.

    Args:
      spec: the request.
      layout: the layout so far; None if the source decides it.
      seen: what the source has for this layout.

    Raises:
      RequestError: the source does not have the columns of a feature, or does not declare their types.
    """
    may_have_several = spec.label_type is LabelType.CLASS
    asks_several = may_have_several and bool(spec.label_separator or spec.label_columns or spec.group_rows)
    if layout is None:
        if Content.MASK in seen.provides:
            return parse_layout("segmentation")
        if Content.CAPTIONS in seen.provides and not CLASSES & seen.provides:
            return parse_layout(CAPTIONS)
        if Content.OBJECTS in seen.provides:
            return parse_layout("detection")
        if Content.IMAGE in seen.provides:
            return parse_layout("multilabel" if asks_several else "tfds")
        return None
    if layout == parse_layout("tfds"):
        if Content.OBJECTS in seen.provides:
            return parse_layout(TFDS_OBJECTS)
        if spec.layout is None and Content.LABEL not in seen.provides:
            return parse_layout("image")
        if spec.layout is None and seen.has_several_labels:
            return parse_layout("multilabel")
    if layout == EVERY_COLUMN and Content.COLUMNS in seen.provides:
        return _every_column(spec, seen)
    draws = MASK_FIELD in layout.fields and seen.provides & {Content.MASK, Content.OBJECT_MASKS} == {
        Content.OBJECT_MASKS
    }
    if draws and spec.map is None:
        layout = dataclasses.replace(layout, draws_mask=True)
    return _expand_columns(layout, seen, has_map=spec.map is not None)


def _every_column(spec: BuildSpec, seen: Description) -> Layout:
    """Returns the layout with a feature for each column.

    Raises:
      RequestError: the source does not declare the types of columns.
    """
    if not seen.column_types:
        raise RequestError(
            f"`layout=columns`: `input={spec.input[0]}` does not declare the types of columns; a spec file can say "
            f"them: {_column_layout(seen)}",
            code="missing_column_type",
        )
    cells = first_cells(seen.table, list(seen.column_types)) if seen.table else {}
    lists = {name for name, values in cells.items() if any(isinstance(value, list) for value in values)}
    return table_layout(seen.column_types, lists)


def check_source(spec: BuildSpec, source: Source) -> None:
    """Checks a source before it is listed.

    Raises:
      RequestError: as `Source.check`.
    """
    # Samples that are left out may be those without an image.
    takes_all = spec.limit is None and not spec.globs
    source.check(spec.max_failures if takes_all else 1)


def _keep_records(spec: BuildSpec, opened: OpenedInput, source: Source) -> tuple[Layout, Source]:
    """Returns the layout of records that are stored as they are, and the source that lists them.

    Raises:
      RequestError: a function or a table would change the records, or the condition cannot be parsed.
    """
    layout = source.description.kept_layout
    assert layout is not None
    given = {"map": spec.map is not None, "join": not {*source.description.columns} <= layout.columns}
    if named := next((name for name, is_given in given.items() if is_given), None):
        raise RequestError(
            f"`{named}`: `layout={SAME}` stores the records as they are; use `layout={ALL_COLUMNS}`, which makes "
            f"examples of their features, or leave `{named}` out",
            [Reading("the features as columns", {"layout": ALL_COLUMNS})],
            code="conflicting_settings",
        )
    needs = dataclasses.replace(spec, layout=layout).needs
    named_columns = {name.removeprefix(COLUMN) for name in _names_of(spec.where, layout) if name.startswith(COLUMN)}
    kept = opened.read(dataclasses.replace(needs, columns=frozenset({*layout.read_columns, *named_columns})))
    # The features are found once.
    kept.notes += [note for note in source.notes if note not in kept.notes]
    return layout, kept


def _names_of(where: str | None, layout: Layout) -> Collection[str]:
    """Returns the columns that a condition names.

    Raises:
      RequestError: it cannot be parsed.
    """
    if where is None:
        return ()
    # Most requests do not need pyarrow here.
    from beam_tfrecords.transforms.blocks.filtering import Condition

    return Condition(where, layout).names


def _expand_columns(layout: Layout, seen: Description, *, has_map: bool) -> Layout:
    """Returns the layout with the columns of each feature that has several.

    Raises:
      RequestError: the source does not have them, or they are unclear.
    """
    features = []
    for feature in layout.features:
        # Some of the columns that a function returns are not those of the source.
        is_made = has_map and not {*feature.read_columns} <= {*seen.columns}
        columns = () if is_made else tuple(seen.columns)
        if feature.field.startswith(COLUMNS) and not (feature.columns and {*feature.columns} <= {*columns}):
            found = expand_columns(feature.field, columns, where=f"`layout`: feature {feature.name!r}: {feature.field}")
            feature = dataclasses.replace(feature, columns=found, length=len(found))
            if feature.moves and feature.length % 2:
                raise RequestError(
                    f"`layout`: feature {feature.name!r}: {feature.field}: points have x and y, and these are "
                    f"{feature.length} columns",
                    code="invalid_layout",
                )
        features.append(feature)
    return dataclasses.replace(layout, features=tuple(features))


def _check_condition(spec: BuildSpec, where: str) -> None:
    """Refuses a condition that cannot be parsed, or that no sample can satisfy."""
    # Most requests do not need pyarrow here.
    from beam_tfrecords.dataset.index import QUALITY

    quality = sorted({*QUALITY}.intersection(_names_of(where, spec.stored)))
    is_array = Content.ARRAY in spec.required
    if quality and (is_array or spec.image_encoding is ImageEncoding.KEEP):
        what, expected = ("arrays", "`layout`") if is_array else ("kept files", "`image_encoding`")
        raise RequestError(
            f"`where={where}`: {', '.join(quality)} of {what} are not measured; expected another {expected}",
            code="quality_not_measured",
        )


def _check_contents(spec: BuildSpec, source: Source, layout: Layout) -> None:
    """Refuses a layout that needs contents that the source lacks; a user's function may provide all except images."""
    missing = [content for content in _REMEDIES if content in layout.required - source.description.provides]
    if missing and spec.map is None:
        is_column = missing[0] is Content.COLUMNS and layout.columns
        what = f"column.{min(layout.columns)}" if is_column else missing[0].value
        raise RequestError(
            f"the layout needs {what}, and `input={spec.input[0]}` is read as {source.name}, which has none; "
            f"{_REMEDIES[missing[0]]}",
            # Files beside the images may be the masks of their objects.
            [Reading("the masks beside the images", {"mask_root": spec.input[0]})]
            if Content.OBJECT_MASKS in missing and source.description.is_inferred_later and len(spec.input) == 1
            else [],
            code="missing_content",
        )
    if Content.IMAGE in layout.required - source.description.provides:
        raise _without_images(spec, source.description, needs_label=Content.LABEL in layout.required)


def _without_images(spec: BuildSpec, seen: Description, *, needs_label: bool) -> RequestError:
    """Returns the error for a table without images, with readings that have some."""
    needs_label = needs_label and not (seen.label_column or spec.label_columns)
    suggestions: list[Reading] = []
    if seen.table is not None:
        try:
            suggestions += column_suggestions(seen.table, image=None, needs_image=True, needs_label=needs_label)
        except RequestError as error:
            raise keep_inputs(error, name_inputs(spec.input)) from error.__cause__
    # A dataset of the columns would lose the images that a column names.
    if seen.column_types and not any("image_column" in one.settings for one in suggestions):
        suggestions.append(Reading("a dataset of the columns only", {"layout": "columns"}))
    alone = f"; a spec file can request a dataset of columns only: {_column_layout(seen)}"
    return RequestError(
        f"`input={spec.input[0]}`: no column has a usual name for images, such as image or "
        "path; name it with `image_column`, or make paths with `image_path`; it has: "
        f"{', '.join(seen.columns)}{'' if suggestions else alone}",
        suggestions,
        code="missing_image_column",
    )


def _check_mask_settings(spec: BuildSpec, layout: Layout | None) -> None:
    """Refuses mask settings for a layout without masks."""
    named = next(iter(spec.mask_settings), None)
    if named and not (layout is not None and (MASK_FIELD in layout.fields or Content.OBJECT_MASKS in layout.required)):
        raise RequestError(
            f"`{named}`: the layout has no masks; use `layout=segmentation`, or leave `{named}` out",
            code="setting_not_applicable",
        )


def _with_label_values(layout: Layout, spec: BuildSpec, seen: Description) -> Layout:
    label_type = spec.label_type
    if seen.label_column is None or Content.LABEL not in layout.required:
        what = "the layout has none" if seen.label_column else f"`input={spec.input[0]}` has no column of labels"
        raise RequestError(
            f"`label_type={label_type.value}` is about the labels of a table, and {what}; name the column with "
            "`label_column`, or leave `label_type` out",
            code="setting_not_applicable",
        )
    kind = "float" if label_type is LabelType.FLOAT else "bytes"
    cells = first_cells(seen.table, [seen.label_column])[seen.label_column] if seen.table else []
    are_lists = any(isinstance(parse_cell(cell) if kind == "float" else cell, list) for cell in cells)
    return with_values(layout, seen.label_column, kind, several=are_lists or spec.group_rows)


def _column_layout(seen: Description) -> str:
    column = next(iter(seen.columns), "name")
    return f"layout: {json.dumps({column: {'field': f'column.{column}', 'type': 'bytes'}})}"
