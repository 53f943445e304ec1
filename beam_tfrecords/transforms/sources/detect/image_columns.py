"""Finds the columns with images and masks: as the request names them, or by cell contents and usual names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK
from beam_tfrecords.transforms.sources.detect.column_names import (
    IMAGE_NAMES,
    MASK_NAMES,
    find_usual,
    is_mask_name,
    plain_name,
)
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import is_image_name
from beam_tfrecords.transforms.sources.selection import read_names
from beam_tfrecords.transforms.sources.tables.cells import is_path_list
from beam_tfrecords.transforms.sources.tables.table import Table, available
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

# Names of tables next to images, and of their columns, that Hugging Face's datasets uses.
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_FILE, _FILES = "file_name", "file_names"
# Number of rows to inspect.
_ROWS = 100
# Number of columns that a refusal suggests one by one.
_MOST_IMAGES = 4
# The row numbers that pandas writes.
_ROW_NUMBERS = re.compile(r"(?:unnamed: ?\d+)?", re.IGNORECASE)


def name_images(
    columns: Sequence[str], table: Table, settings: TableSettings, wanted: Mapping[str, str]
) -> dict[str, str]:
    """Returns image name -> column as the request states; "" for a column to find by usual names, {} if it states none.

    Args:
      columns: columns of the table that may have images.
      table: the table.
      settings: settings of the table.
      wanted: as in `Needs.images`.

    Raises:
      RequestError: a named column does not exist, or an image is named like the mask.
    """
    column = settings.image_column
    if settings.image_path is not None:
        return {}
    images = dict(wanted)
    if column is not None and (column in columns or "," not in column):
        name = IMAGE if IMAGE in images or not images else column
        images = {name: column, **{one: other for one, other in images.items() if one != name}}
    elif column is not None:
        images = {name: name for name in read_names(column)}
    missing = next((one for one in images.values() if one and one not in columns), None)
    if missing is not None:
        setting = f"`image_column={column}`" if column else "`layout`"
        what = "no such column" if missing == column else f"no column {missing!r}"
        what = f"no images in column {missing!r}" if missing in table.columns else what
        raise RequestError(
            f"{setting}: {table.path} has {what}; {available(table, missing)}",
            code="column_without_images" if missing in table.columns else "unknown_column",
        )
    if MASK in images:
        raise RequestError(
            f"column {images[MASK]!r}: an image named {MASK!r} would be compressed as a photo; use "
            f"`mask_column={images[MASK]}` `layout=segmentation`, or give the column another name",
            code="mask_as_image",
        )
    return images


def choose_image(kinds: Iterable[Sequence[str]], table: Table, named: str | None, *, lacks: str) -> str:
    """Returns the image column: the column that the request names, a column with a usual name, or the only one.

    Args:
      kinds: groups of columns that may have images based on their cells, the most certain group first. Columns with
        names of masks are used only if there are no others.
      table: the table with these columns.
      named: column that the request names, or None.
      lacks: description of the missing column, for the error message.

    Raises:
      RequestError: there is no image column, or there are several.
    """
    if named is not None:
        if named in table.columns:
            return named
        raise RequestError(
            f"`image_column={named}`: {table.path} has no such column; {available(table, named)}", code="unknown_column"
        )
    found: Sequence[str] = next(filter(None, kinds), ())
    found = [name for name in found if not is_mask_name(name)] or found
    usual = find_image_column(found)
    if usual is not None or len(found) == 1:
        return usual or found[0]
    what = f"several columns with images ({', '.join(found)})" if found else lacks
    say = f"; name one with `image_column`, such as `image_column={found[0]}`" if found else ""
    raise RequestError(
        f"{quote_input(table.path)} has {what}{say}; {available(table)}",
        code="several_image_columns" if found else "missing_image_column",
    )


def find_image_column(columns: Sequence[str]) -> str | None:
    """Returns the image column with a usual name; None if there is none."""
    return next(find_usual(columns, IMAGE_NAMES), None)


def suggest_images(found: Sequence[str], cells: Mapping[str, Sequence[Any]], what: str) -> list[Reading]:
    """Suggests all columns with images, and each of them; one of those with the same names of files.

    Args:
      found: the columns, the most usual name first.
      cells: column -> first cells, of columns with names of images.
      what: what messages call a column.
    """
    # A name and a path of one file are the same image, but only one of them may lead to it.
    files = {name: [posixpath.basename(str(cell)) for cell in cells.get(name, ())] or [name] for name in found}
    several = sorted({str(files[name]): name for name in found}.values(), key=found.index)
    alone = [name for name in found if not cells or name == next(one for one in found if cells[one] == cells[name])]
    # Local images come before those that would have to be downloaded.
    alone.sort(key=lambda name: any(storage.is_web(str(cell)) for cell in cells.get(name, ())))
    together = Reading(f"the images in {what}s {' and '.join(map(repr, several))}", {"image_column": ",".join(several)})
    each = [Reading(f"the images in {what} {name!r}", {"image_column": name}) for name in alone[:_MOST_IMAGES]]
    return [together, *each] if len(several) > 1 else each


def choose_mask(columns: Sequence[str], table: Table, named: str | None, names: Sequence[str] = MASK_NAMES) -> str:
    """Returns the mask column.

    Args:
      columns: columns that may have images.
      table: the table with these columns.
      named: column that the request names, or None.
      names: usual names, the best first.

    Raises:
      RequestError: there is no mask column.
    """
    mask = next(find_usual(columns, names), None) if named is None else named
    if mask is None or mask not in columns:
        what = f"{named or 'mask'!r} with the bytes of masks"
        raise RequestError(
            f"{quote_input(table.path)} has no column {what}; name another with `mask_column`; {available(table)}",
            code="missing_mask_column",
        )
    return mask


def is_file_name(column: str) -> bool:
    """Whether a column of `metadata.csv` contains image paths, by its name."""
    return column == _FILE or column.endswith(f"_{_FILE}") or is_file_list(column)


def is_file_list(column: str) -> bool:
    """Whether a column of `metadata.csv` contains lists of image paths, by its name."""
    return column == _FILES or column.endswith(f"_{_FILES}")


def is_mask_file(column: str) -> bool:
    """Whether a column of `metadata.csv` contains mask paths, by its name."""
    return is_file_name(column) and plain_name(column) in MASK_NAMES


def find_file_names(table: Table, named: str | None, wanted: Mapping[str, str]) -> dict[str, str]:
    """Returns image name -> column: as the request states, else all with names such as `file_name`, which comes first.

    Args:
      table: the table.
      named: columns that the request names, or None.
      wanted: as in `Needs.images`.

    Raises:
      RequestError: there is no such column.
    """
    if named is not None:
        columns = [named] if named in table.columns else read_names(named)
    else:
        columns = sorted(filter(is_file_name, table.columns), key=lambda name: name not in (_FILE, _FILES))
        columns = [name for name in columns if not is_mask_file(name)]
    # Names images as datasets does: `left` for `left_file_name`.
    names = {_FILE: "image", _FILES: "images"}
    images = {names.get(one) or one.removesuffix(f"_{_FILE}").removesuffix(f"_{_FILES}"): one for one in columns}
    if not images:
        raise RequestError(
            f"{quote_input(table.path)} has no column with a name such as {_FILE!r}; name one with `image_column`; "
            f"{available(table)}",
            code="missing_image_column",
        )
    # A custom layout names its images; otherwise `image.encoded` is the first image.
    found = {name: column for name, column in images.items() if name in wanted}
    return found if found.keys() == wanted.keys() and found else images


def find_lists(table: Table, images: Mapping[str, str]) -> set[str]:
    """Returns the columns that contain lists of paths in the first rows."""
    columns = [column for column in images.values() if column not in table.embedded]
    first: dict[str, Any] = {}
    for row in table.head(columns, _ROWS) if columns else ():
        first = {**{name: cell for name, cell in row.items() if cell and cell != "[]"}, **first}
    return {column for column in columns if is_path_list(first.get(column))}


def choose_names(fields: Mapping[str, Sequence[Any]]) -> list[str]:
    """Returns the fields that may name the images; several if these lead to different images.

    Whole names beat stems. Weaker are numbers that count the rows, above all in a column that pandas adds, and values
    that recur, which may be classes.

    Args:
      fields: field -> first values, in the order of the rows; each value leads to an image.
    """
    words = {name: tuple(map(str, values)) for name, values in fields.items()}

    def rank(name: str) -> int:
        cells = words[name]
        if all(map(is_image_name, cells)):
            return 0
        if len({*cells}) * 2 <= len(cells):
            return 4
        if cells not in [tuple(map(str, range(first, first + len(cells)))) for first in (0, 1)]:
            return 1
        return 3 if _ROW_NUMBERS.fullmatch(name) else 2

    best = min(map(rank, words), default=0)
    # Of fields with the same values, the first.
    return [*{words[name]: name for name in reversed(words) if rank(name) == best}.values()][::-1]
