"""Tables of the colors of masks, from a file or by name: which class each color stands for.

Forms: lines (`road 128 64 128`, `128 64 128 road`, `#804080 road`, `road:128,64,128::` of CVAT), CSV with a header, and
JSON: {"road": [128, 64, 128]}, or a list of objects with a name and a color. Classes have their indices in the order of
the table; a name may have several colors. The names void, ignore and ignored stand for 255, the number of pixels that a
loss ignores, and are not classes.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.storage.beside import does_not_exist

VOID = 255
_LARGEST = 65535
_VOID_NAMES = ("void", "ignore", "ignored")
NAMED = ("camvid", "cityscapes", "pascal")
_EXPECTED = f"expected lines such as `road 128 64 128`, CSV with a header, JSON, or one of {', '.join(NAMED)}"
_MOST_BYTES = 1 << 20
_HEX = r"#[0-9a-fA-F]{6}\b"
_COLOR = rf"{_HEX}|[\[(]?\s*\d{{1,3}}[\s,;]+\d{{1,3}}[\s,;]+\d{{1,3}}\b\s*[\])]?"
_LINES = (
    re.compile(rf"(?P<color>{_COLOR})[\s,;:=]+(?P<name>\S.*)"),
    re.compile(rf"(?P<name>.*?\S)[\s,;:=]+(?P<color>{_COLOR})[\s,;:]*"),
)
_COMMENT = re.compile(rf"(?!{_HEX})#|//")
_NUMBERED = re.compile(r"(\d+)[\s,;:.]+(\S.*)")
_NAMES = ("name", "classname", "class", "label", "labelname", "title", "category")
_NUMBERS = ("id", "index", "idx", "number", "classid", "labelid")


@dataclasses.dataclass(frozen=True)
class MaskColors:
    """The classes of the colors of masks.

    Attributes:
      rows: (name, color) in the order of the table; a color is red + 256 * green + 65536 * blue.
    """

    rows: tuple[tuple[str, int], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The class names, in index order."""
        return tuple(dict.fromkeys(name for name, _ in self.rows if not _is_void(name)))

    @property
    def numbers(self) -> tuple[tuple[int, int], ...]:
        """(color, number in the record) of each color."""
        indices = {name: index for index, name in enumerate(self.names)}
        return tuple((color, indices.get(name, VOID)) for name, color in self.rows)

    def to_json(self) -> list[dict[str, Any]]:
        """Returns the table in a form that `read_mask_colors` reads."""
        return [{"name": name, "color": channels_of(color)} for name, color in self.rows]


@dataclasses.dataclass(frozen=True)
class _Row:
    name: str
    color: int
    number: int | None = None


def channels_of(color: int) -> list[int]:
    """Returns red, green and blue of a color."""
    return [color >> shift & 255 for shift in (0, 8, 16)]


def show_color(color: int) -> str:
    """Returns a color as messages show it, such as 128,64,128."""
    return ",".join(map(str, channels_of(color)))


def read_mask_colors(word: Any) -> MaskColors:
    """Reads a table of colors: a name in `NAMED`, a file, or the value of a JSON file.

    Raises:
      ValueError: there is no such file, the table is in no known form, or it has a color twice.
    """
    if not isinstance(word, str):
        return _combine(_rows_of(word))
    path = storage.absolute(word)
    if word.lower() in NAMED:
        path = storage.join(storage.dirname(storage.absolute(__file__)), f"images/color_tables/{word.lower()}.txt")
    if not storage.is_file(path):
        if word.lower() == "ade20k":
            raise ValueError(
                "in the color table of ADE20K, skyscraper and road have one color, so colors do not tell the classes; "
                "its annotations are numbers, which need no `mask_colors`"
            )
        raise ValueError(f"{does_not_exist(path)}; {_EXPECTED}")
    with storage.open_read(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB; expected a table of colors")
    try:
        return _combine(_parse(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text; expected a table of colors") from error


def _parse(text: str) -> list[_Row]:
    try:
        value = json.loads(text)
    except ValueError:
        lines = (line.strip() for line in text.splitlines())
        return _of_lines([line for line in lines if line and not _COMMENT.match(line)])
    return _rows_of(value)


def _rows_of(value: Any) -> list[_Row]:
    """Reads {name: color}, {color: name}, {name or number: object} and a list of objects."""
    if isinstance(value, Mapping):
        return [_of_item(str(key), one) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return [_of_object(one) for one in value]
    raise ValueError(_EXPECTED)


def _of_item(key: str, value: Any) -> _Row:
    color = _read_color(value)
    if color is not None:
        return _Row(key, color)
    if isinstance(value, str) and (color := _read_color(key)) is not None:
        return _Row(value, color)
    return _of_object({"id" if key.isdecimal() else "name": key, **value} if isinstance(value, Mapping) else value)


def _of_object(value: Any) -> _Row:
    if not isinstance(value, Mapping):
        raise ValueError(f"it has {_shorten(value)}, and not a name and a color; {_EXPECTED}")
    cells = {re.sub(r"[^a-z]", "", str(key).lower()): one for key, one in value.items()}
    name = next((cells[word] for word in _NAMES if cells.get(word) not in (None, "")), None)
    colors = (_read_color(one) for key, one in cells.items() if key.startswith(("color", "colour", "rgb", "hex")))
    color = next((one for one in colors if one is not None), _read_color(value))
    if not isinstance(name, str | int) or isinstance(name, bool) or color is None:
        raise ValueError(f"{_shorten(dict(value))} has no name, or no color of three numbers from 0 to 255")
    number = next((cells[word] for word in _NUMBERS if cells.get(word) not in (None, "")), None)
    return _Row(str(name), color, None if number is None else _read_number(number))


def _of_lines(lines: Sequence[str]) -> list[_Row]:
    if lines and not any(pattern.fullmatch(lines[0]) for pattern in _LINES):
        mark = next((mark for mark in "\t;," if mark in lines[0]), ",")
        header = [re.sub(r"[^a-z]", "", cell.lower()) for cell in re.split(r"[\s,;]+", lines[0])]
        if {*header} & {*_NAMES}:
            table = list(csv.reader(lines, delimiter=mark, skipinitialspace=True))
            if len(table[0]) > 1 and all(len(row) == len(table[0]) for row in table):
                return [_of_object(dict(zip(table[0], row, strict=True))) for row in table[1:]]
            lines = lines[1:]
    forms = [[match for line in lines if (match := pattern.fullmatch(line))] for pattern in _LINES]
    whole = [found for found in forms if len(found) == len(lines) > 0]
    if not whole:
        most = max(forms, key=len)
        other = next((line for line in lines if line not in {match[0] for match in most}), "nothing")
        raise ValueError(f"it has the line {_shorten(other)}; {_EXPECTED}")
    names = [[match["name"].strip(" \t,;:\"'") for match in found] for found in whole]
    if len(whole) > 1 or all(re.search(r"[\s,;]\d+$", name) for name in names[0]):
        raise ValueError(
            f"its lines, such as {_shorten(lines[0])}, have more than three numbers, and which are the color is "
            "unclear; expected CSV with the header name,r,g,b"
        )
    colors = [_read_color(match["color"]) for match in whole[0]]
    wrong = next((line for line, color in zip(lines, colors, strict=True) if color is None), None)
    if wrong is not None:
        raise ValueError(f"{_shorten(wrong)} has no color of three numbers from 0 to 255")
    numbered = [_NUMBERED.fullmatch(name) for name in names[0]]
    return [
        _Row(match[2], color or 0, int(match[1])) if match and all(numbered) else _Row(name, color or 0)
        for name, color, match in zip(names[0], colors, numbered, strict=True)
    ]


def _read_color(value: Any) -> int | None:
    """Reads #804080, 128,64,128, (128, 64, 128), [128, 64, 128] and {"r": 128, "g": 64, "b": 128}; else None."""
    if isinstance(value, str):
        if found := re.fullmatch(r"\s*#?([0-9a-fA-F]{6})\s*", value):
            value = list(bytes.fromhex(found[1]))
        elif re.fullmatch(rf"\s*(?:{_COLOR})\s*", value):
            value = re.findall(r"\d+", value)
    elif isinstance(value, Mapping):
        cells = {str(key).strip().lower(): one for key, one in value.items()}
        value = [cells.get(short, cells.get(long)) for short, long in (("r", "red"), ("g", "green"), ("b", "blue"))]
    if not isinstance(value, list | tuple) or len(value) != 3:
        return None
    channels = [_read_number(channel) for channel in value]
    if any(channel is None or channel > 255 for channel in channels):
        return None
    return sum((channel or 0) << shift for channel, shift in zip(channels, (0, 8, 16), strict=True))


def _read_number(value: Any) -> int | None:
    is_number = type(value) is int or (isinstance(value, str) and re.fullmatch(r"\s*\d{1,9}\s*", value))
    return int(value) if is_number and int(value) >= 0 else None


def _combine(rows: Sequence[_Row]) -> MaskColors:
    """Checks the rows of a table.

    Raises:
      ValueError: two classes have one color, or the table gives the classes other numbers than their order does.
    """
    names: dict[int, str] = {}
    for row in rows:
        if names.setdefault(row.color, row.name) != row.name:
            raise ValueError(
                f"{names[row.color]} and {row.name} have one color, {show_color(row.color)}; expected a color of its "
                "own for each class"
            )
    if all(row.number is not None for row in rows):
        rows = sorted(rows, key=lambda row: row.number or 0)
    made = MaskColors(tuple(dict.fromkeys((row.name, row.color) for row in rows)))
    count = len(made.names)
    if not count or count > _LARGEST + 1 or (count > VOID and len({name for name, _ in made.rows}) > count):
        raise ValueError(f"it has {count:,} classes; expected 1 to 65,536, or at most {VOID} beside void")
    indices = dict(made.numbers)
    for row in rows:
        if row.number not in (None, indices[row.color]) and not _is_void(row.name):
            raise ValueError(
                f"it gives {row.name} the number {row.number}, and the index of the class would be "
                f"{indices[row.color]}; expected the numbers 0, 1, 2, … of all classes but void, or no numbers"
            )
    return made


def read_mask_values(word: Any) -> tuple[tuple[int, int], ...]:
    """Reads `255:1,0-127:0`, or a mapping: number or range in the file of a mask -> number in the record.

    Raises:
      ValueError: it is in another form, or has a number twice.
    """
    pairs = list(word.items()) if isinstance(word, Mapping) else [one.split(":") for one in str(word).split(",")]
    found = [_expand(*pair) if len(pair) == 2 else [] for pair in pairs]
    values = [*itertools.chain.from_iterable(found)]
    if not (found and all(found)) or len(dict(values)) < len(values):
        raise ValueError(
            "expected each number in the files with its number in the records, such as 255:1,128:0 or 0-127:0,128-255:1"
        )
    return tuple(sorted(values))


def _expand(word: Any, number: Any) -> list[tuple[int, int]]:
    """Returns each number of a range such as `0-127`, or the only one, with its number; [] for another form."""
    first, mark, last = str(word).partition("-")
    start, end, to = map(_read_number, (first, last if mark else first, number))
    if start is None or end is None or to is None or max(end, to) > _LARGEST:
        return []
    return [(one, to) for one in range(start, end + 1)]


def _is_void(name: str) -> bool:
    return name.lower() in _VOID_NAMES


def _shorten(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
