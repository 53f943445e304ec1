"""Which column of a table is what: as the request names it, else by the usual names."""

from __future__ import annotations

import dataclasses
import itertools
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from transforms.sources.inputs import quote_input
from transforms.sources.names import is_image_name, printable
from transforms.sources.source_spec import SourceSpec
from transforms.sources.tables.split_column import SplitColumn, find_split_column
from transforms.sources.tables.table import InvalidRow, Table

# The usual names, in order of preference, without regard to case, spaces and underscores. The first is the
# documented one: it is taken without a note.
_IMAGES = (
    "image", "imagepath", "imagefile", "imgpath", "path", "filepath", "filename", "file", "imagename", "img",
)  # fmt: skip
_LABELS = ("label", "labels", "class", "classname", "classes", "category")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_ROWS = 100
_ONE_HOT = {"0", "1", "0.0", "1.0"}
_LONGEST_LABEL = 60
# Where the images of tables with an id instead of a path usually are.
_FOLDERS = ("", "train", "images", "img", "train_images", "data")
_EXTENSIONS = (".jpg", ".png", ".jpeg")


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which column is what; None where the table has none.

    Attributes:
      pattern: pattern of the image's path over columns; None if a column has the path.
      labels: columns of zeros and ones, one for each class.
      group: what keeps rows in one split.
    """

    image: str | None
    pattern: str | None
    label: str | None
    split: SplitColumn | None
    key: str | None
    group: str | None = None
    labels: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        """All columns that are read."""
        split = self.split.name if self.split else None
        named = [name for name in (self.image, self.label, split, self.key, self.group) if name is not None]
        return [*named, *self.labels, *pattern_columns(self.pattern or "")]

    @property
    def has_images(self) -> bool:
        """Whether samples have images."""
        return self.image is not None or self.pattern is not None


def choose_columns(table: Table, spec: SourceSpec) -> tuple[Columns, list[str]]:
    """The columns of a table, and notes on those that were guessed.

    Raises:
      RequestError: a column of the request does not exist, or cannot be what it is to be.
    """
    if spec.image_path is not None and spec.image_column is not None:
        raise RequestError(
            f"`image_path={spec.image_path}` and `image_column={spec.image_column}` both say where the images are; "
            "leave one out"
        )
    notes = list(table.notes)
    taken: list[str] = []

    def choose(setting: str, names: Sequence[str], what: str, *, text: bool = False) -> str | None:
        named: str | None = getattr(spec, setting)
        if named is not None:
            if named not in table.columns:
                raise RequestError(f"`{setting}={named}`: {table.path} has no such column; {available(table)}")
            return named
        guessed = _guess(table, names, text=text)
        if guessed is not None and guessed != names[0]:
            taken.append(f"{what} from column {guessed!r}")
        return guessed

    images = () if spec.image_path is not None else _IMAGES if spec.needs_image else _IMAGES[:1]
    image = choose("image_column", images, "images", text=True)
    usual_labels = () if spec.label_columns else _LABELS if spec.needs_label else _LABELS[:1]
    label = choose("label_column", usual_labels, "labels")
    for name in spec.label_columns:
        if name not in table.columns:
            raise RequestError(f"`label_columns`: {table.path} has no column {name!r}; {available(table)}")
    if label is not None and spec.label_columns:
        raise RequestError(
            f"`label_column={label}` and `label_columns` both say where the labels are; leave one of them out"
        )
    split, note = find_split_column(table, spec, taken=[image, label])
    if note:
        taken.append(note)
    key = choose("key_column", (), "keys")
    group = choose("group_column", (), "groups")
    if spec.image_path is not None:
        _check_pattern(table, spec.image_path)
    if image is not None and not table.may_hold_text(image):
        raise RequestError(
            f"{quote_input(table.path)}: the values in column {image!r} are not strings, but an image is given by its "
            f"path; name the column with the paths with `image_column`; {available(table)}"
        )
    if label is None and spec.needs_label and not spec.label_columns:
        raise RequestError(
            f"{quote_input(table.path)} has no column 'label', which the layout needs; name another with "
            f"`label_column`, or say `layout=image` for images without labels; {describe_columns(table)}"
        )
    if taken:
        notes.append(f"{printable(storage.basename(table.path))}: {', '.join(taken)}")
    return Columns(image, spec.image_path, label, split, key, group, spec.label_columns), notes


def available(table: Table) -> str:
    """The columns, for a message."""
    return f"it has: {', '.join(table.columns)}"


def describe_columns(table: Table) -> str:
    """Which columns look like images and labels, the settings that say so, and all columns, for a message."""
    rows = itertools.islice(table.rows(table.columns), _ROWS)
    hints = list(_hints(table, [row for row in rows if not isinstance(row, InvalidRow)]))
    return "; ".join([*hints, available(table)])


def pattern_columns(pattern: str) -> list[str]:
    """The columns that a pattern such as `train/{id}.jpg` names."""
    return _PLACEHOLDER.findall(pattern)


def fill_pattern(pattern: str, cells: Mapping[str, str]) -> str:
    """The path that a pattern gives for the cells of a row."""
    return _PLACEHOLDER.sub(lambda match: cells[match[1]], pattern)


def _check_pattern(table: Table, pattern: str) -> None:
    names = pattern_columns(pattern)
    if not names or "{" in (rest := _PLACEHOLDER.sub("", pattern)) or "}" in rest:
        raise RequestError(f"`image_path={pattern}`: expected a path with columns in braces, such as train/{{id}}.jpg")
    for name in names:
        if name not in table.columns:
            raise RequestError(f"`image_path={pattern}`: {table.path} has no column {name!r}; {available(table)}")


def _guess(table: Table, names: Sequence[str], *, text: bool) -> str | None:
    """The first column of a usual name; where text is needed, only the first name may have none."""
    if names and names[0] in table.columns:
        return names[0]
    plain = {re.sub(r"[\s_-]", "", column.lower()): column for column in reversed(table.columns)}
    found = (plain[name] for name in names if name in plain)
    return next((column for column in found if not text or table.may_hold_text(column)), None)


def _hints(table: Table, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cells = {
        name: [value for row in rows if isinstance(value := row[name], (str, int)) and value != ""]
        for name in table.columns
    }
    images = [
        name for name, values in cells.items() if values and sum(map(is_image_name, map(str, values))) * 2 > len(values)
    ]
    if images:
        yield f"{_quote(images)} images: say `image_column={images[0]}`"
    else:
        pattern = next(
            (found for name, values in cells.items() if values and (found := _find(table, name, values))), ""
        )
        if pattern:
            yield f"there are images at {pattern}: say `image_path={pattern}`"
    one_hot = [
        name
        for name, values in cells.items()
        if name not in images and len(values) == len(rows) > 0 and {str(value) for value in values} <= _ONE_HOT
    ]
    if len(one_hot) > 1:
        yield f"columns of zeros and ones look like one class each: say `label_columns={','.join(one_hot)}`"
        return
    labels = [
        name
        for name, values in cells.items()
        if name not in images and 1 < len(set(values)) < len(values) and len(max(map(str, values))) < _LONGEST_LABEL
    ]
    labels.sort(key=lambda name: len(set(cells[name])))
    if labels:
        yield f"{_quote(labels)} labels: say `label_column={labels[0]}`"


def _quote(columns: Sequence[str]) -> str:
    return f"{', '.join(map(repr, columns[:3]))} look{'s' if len(columns) == 1 else ''} like"


def _find(table: Table, column: str, values: Sequence[Any]) -> str | None:
    """The pattern by which the first cell of a column names a local image; None if it does not."""
    if storage.has_scheme(table.path) or "/" in str(values[0]):
        return None
    root = storage.dirname(table.path)
    for folder in _FOLDERS:
        for extension in _EXTENSIONS:
            pattern = posixpath.join(folder, f"{{{column}}}{extension}")
            if storage.is_file(storage.join(root, fill_pattern(pattern, {column: str(values[0])}))):
                return pattern
    return None
