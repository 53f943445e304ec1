"""Which columns have images and masks: as the request names them, by what cells hold, and by the usual names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK
from beam_tfrecords.transforms.sources.detect.column_names import IMAGE_NAMES, MASK_NAMES, is_mask_name, plain_name
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.selection import read_names
from beam_tfrecords.transforms.sources.tables.cells import is_path_list
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Table, available
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

# What Hugging Face's datasets calls the columns of tables beside images.
_FILE, _FILES = "file_name", "file_names"
# Rows that are looked at.
_ROWS = 100


def name_images(
    columns: Sequence[str], table: Table, settings: TableSettings, wanted: Mapping[str, str]
) -> dict[str, str]:
    """Name of an image -> its column, as the request says; "" for that of a usual name, empty if it says none.

    Args:
      columns: those of the table that may have images.
      settings: settings of the table.
      wanted: as `Needs.images`.
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
        raise RequestError(f"{setting}: {table.path} has {what}; {available(table)}")
    if MASK in images:
        raise RequestError(
            f"column {images[MASK]!r}: an image of the name {MASK!r} would be compressed as a photo; say "
            f"`mask_column={images[MASK]}` `layout=segmentation`, or give the column another name"
        )
    return images


def choose_image(kinds: Iterable[Sequence[str]], table: Table, named: str | None, *, lacks: str) -> str:
    """The column with the images: the one that the request names, that of a usual name, or the only one.

    Args:
      kinds: the columns that may have images as their cells look, the most certain ones first. Those that are masks by
        their names come last.
      table: with these columns.
      named: column that the request names.
      lacks: what the table does not have, for a message.

    Raises:
      RequestError: there is none, or there are several.
    """
    if named is not None:
        if named in table.columns:
            return named
        raise RequestError(f"`image_column={named}`: {table.path} has no such column; {available(table)}")
    found: Sequence[str] = next(filter(None, kinds), ())
    found = [name for name in found if not is_mask_name(name)] or found
    usual = find_image_column(found)
    if usual is not None or len(found) == 1:
        return usual or found[0]
    what = f"several columns with images ({', '.join(found)})" if found else lacks
    say = f"; name one with `image_column`, such as `image_column={found[0]}`" if found else ""
    raise RequestError(f"{quote_input(table.path)} has {what}{say}; {available(table)}")


def find_image_column(columns: Sequence[str]) -> str | None:
    """The column of the images by its usual name; None if there is none."""
    return find_name(columns, IMAGE_NAMES)


def choose_mask(columns: Sequence[str], table: Table, named: str | None) -> str:
    """The column of the masks, of those that may have images.

    Args:
      named: column that the request names.

    Raises:
      RequestError: there is none.
    """
    mask = find_name(columns, MASK_NAMES) if named is None else named
    if mask is None or mask not in columns:
        what = f"{named or 'mask'!r} with the bytes of masks"
        raise RequestError(
            f"{quote_input(table.path)} has no column {what}; name another with `mask_column`; {available(table)}"
        )
    return mask


def is_file_name(column: str) -> bool:
    """Whether the name of a column says that it has the paths of images, as in `metadata.csv`."""
    return column == _FILE or column.endswith(f"_{_FILE}") or is_file_list(column)


def is_file_list(column: str) -> bool:
    """Whether the name of a column says that it has lists of them."""
    return column == _FILES or column.endswith(f"_{_FILES}")


def is_mask_file(column: str) -> bool:
    """Whether these are the paths of masks."""
    return is_file_name(column) and plain_name(column) in MASK_NAMES


def find_file_names(table: Table, named: str | None, wanted: Mapping[str, str]) -> dict[str, str]:
    """Name of an image -> its column: those of the request, else all of usual names; `file_name` comes first.

    Args:
      named: column that the request names.
      wanted: as `Needs.images`.

    Raises:
      RequestError: there is none.
    """
    if named is not None:
        columns = [named] if named in table.columns else read_names(named)
    else:
        columns = sorted(filter(is_file_name, table.columns), key=lambda name: name not in (_FILE, _FILES))
        columns = [name for name in columns if not is_mask_file(name)]
    # As datasets names them: `left` of `left_file_name`.
    names = {_FILE: "image", _FILES: "images"}
    images = {names.get(one) or one.removesuffix(f"_{_FILE}").removesuffix(f"_{_FILES}"): one for one in columns}
    if not images:
        raise RequestError(
            f"{quote_input(table.path)} has no column with a name such as {_FILE!r}; name one with `image_column`; "
            f"{available(table)}"
        )
    # What a layout of one's own asks for; `image.encoded` is that of the first.
    found = {name: column for name, column in images.items() if name in wanted}
    return found if found.keys() == wanted.keys() and found else images


def find_name(
    columns: Sequence[str], names: Sequence[str], is_fit: Callable[[str], bool] = lambda _: True
) -> str | None:
    """The first column of a usual name that is fit; the first name itself always is."""
    if names and names[0] in columns:
        return names[0]
    plain = {plain_name(column): column for column in reversed(columns)}
    found = (plain[name] for name in names if name in plain)
    return next((column for column in found if is_fit(column)), None)


def find_lists(table: Table, images: Mapping[str, str]) -> set[str]:
    """The columns that have lists of paths, as the first rows say."""
    columns = [column for column in images.values() if column not in table.embedded]
    first: dict[str, Any] = {}
    for row in itertools.islice(table.rows(columns), _ROWS) if columns else ():
        if not isinstance(row, InvalidRow):
            first = {**{name: cell for name, cell in row.items() if cell and cell != "[]"}, **first}
        if len(first) == len(set(columns)):
            break
    return {column for column in columns if is_path_list(first.get(column))}
