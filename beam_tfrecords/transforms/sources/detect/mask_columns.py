"""Finds the column of a table with masks of objects: run lengths, polygons, or paths of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.transforms.sources.detect.box_columns import has_box_names
from beam_tfrecords.transforms.sources.detect.column_names import is_mask_name
from beam_tfrecords.transforms.sources.detect.roles import Role, are_sorted, is_segmentation, parse_cell, role_of
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.tables.box_cells import MaskColumns
from beam_tfrecords.transforms.sources.tables.table import Table, available, first_cells
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

_ROWS = 1000


def find_masks(
    table: Table, settings: TableSettings, needs: Needs, label: str | None, *, image: str | None
) -> MaskColumns | None:
    """Finds the column with the masks of objects, by the first rows; None without any, or if masks are not wanted.

    Args:
      table: the table.
      settings: settings of the table.
      needs: requested contents.
      label: column of the classes, or None.
      image: column with the images.

    Raises:
      RequestError: there are run lengths and no layout, or several such columns.
    """
    is_open = needs.columns is None and Content.OBJECTS in needs.contents and not needs.all_columns
    # Boxes of the table come before those around masks.
    takes_boxes = (Content.OBJECTS in needs.required or is_open) and not has_box_names(table.columns)
    if settings.label_columns or not ({*OUTLINES, Content.MASK} & needs.contents or takes_boxes):
        return None
    others = {image, label, *table.embedded}
    chosen = settings.mask_column
    names = [one for one in table.columns if (one == chosen if chosen else one not in others)]
    cells = first_cells(table, names, rows=_ROWS)
    roles = {name: _role_of(name, values) for name, values in cells.items()}
    found = [name for name, role in roles.items() if role in (Role.RUNS, Role.ANNOTATION)]
    key = settings.key_column or image
    if not found and (image is not None or settings.image_path):
        are_paths = [name for name, role in roles.items() if role in (Role.IMAGE, Role.MASK)]
        named = [name for name in are_paths if settings.mask_column or is_mask_name(name)]
        found = [name for name in named if OUTLINES & needs.contents or (key and _are_each(table, key, cells[name]))]
    for name in found:
        _refuse_relative(table, name, cells[name] if roles[name] is Role.RUNS else ())
        if is_open:
            raise _refuse_layout(table, name, roles[name])
    if len(found) > 1 and len(named := [name for name in found if is_mask_name(name)]) == 1:
        found = named
    if len(found) > 1:
        raise RequestError(
            f"{quote_input(table.path)} has several columns with masks of objects ({', '.join(found)}); name one with "
            f"`mask_column`; {available(table)}",
            [Reading(f"the masks in column {name!r}", {"mask_column": name}) for name in found],
            code="several_mask_columns",
        )
    if not found:
        return None
    are_files = roles[found[0]] in (Role.IMAGE, Role.MASK)
    return MaskColumns(found[0], label, needs.only_class, are_files, settings.run_order)


def _role_of(name: str, cells: Sequence[Any]) -> Role:
    """Returns the role of a column; annotations are those with polygons or run lengths."""
    role = role_of(name, cells)
    if role is not Role.ANNOTATION:
        return role
    found = [one for cell in cells if cell for one in (parse_cell(cell),)]
    return role if all(is_segmentation(one) or _are_segmentations(one) for one in found) else Role.OTHER


def _are_segmentations(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_segmentation, value))


def _are_each(table: Table, key: str, masks: Sequence[Any]) -> bool:
    """Whether cells are lists of masks, or rows of one key have masks of their own; the key is that of the sample."""
    if any(isinstance(parse_cell(cell), list) for cell in masks):
        return True
    keys = first_cells(table, [key], rows=_ROWS)[key] if key in table.columns else []
    pairs = [(str(one), str(mask)) for one, mask in zip(keys, masks, strict=False) if one and mask]
    return len({one for one, _ in pairs}) < len(pairs) == len({mask for _, mask in pairs})


def _refuse_relative(table: Table, column: str, cells: Sequence[Any]) -> None:
    """Refuses run lengths most of which are out of order, as those that count from the end of the run before."""
    texts = [cell.split() for cell in cells if isinstance(cell, str) and len(cell.split()) > 2]
    wrong = [words for words in texts if all(map(str.isdecimal, words)) and not are_sorted(words)]
    if wrong and len(wrong) * 2 > len(texts):
        raise RequestError(
            f"{quote_input(table.path)}: column {column!r} has run lengths that are out of order, such as "
            f"{' '.join(wrong[0][:4])}; expected starts that count from the first pixel of the image, not from the run "
            "before",
            code="relative_run_lengths",
        )


def _refuse_layout(table: Table, column: str, role: Role) -> RequestError:
    what = {Role.RUNS: role.value, Role.ANNOTATION: "polygons"}.get(role, "masks of objects")
    return RequestError(
        f"{quote_input(table.path)}: column {column!r} has {what}, which can be a mask for each image or "
        "for each object; expected a `layout`",
        [
            Reading("a mask of the classes for each image", {"layout": "segmentation"}),
            Reading("boxes and a mask for each object", {"layout": "detection_masks"}),
        ],
        code="unclear_masks",
    )
