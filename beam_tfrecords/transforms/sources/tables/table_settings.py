"""Settings of tables and of text files."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Any

from beam_tfrecords.transforms.objects.objects import BoxFormat, BoxUnit, RunOrder
from beam_tfrecords.transforms.settings import as_number, input_setting, one_of, switch, write_list
from beam_tfrecords.transforms.sources.selection import read_names

TYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
)  # fmt: skip
_FORM = re.compile(rf"(?:([1-9]\d{{0,8}}(?:x[1-9]\d{{0,8}}){{1,2}}):)?({'|'.join(TYPES)})(?::(.+)\.\.(.+))?")
_EXPECTED = "expected SIZE:TYPE:BLACK..WHITE, such as 28x28:uint8, 40x40x3:float32:0..1 or float32:0..1"


@dataclasses.dataclass(frozen=True)
class PixelForm:
    """How images are stored as numbers.

    Attributes:
      shape: lengths of the axes, [H, W], [H, W, C] or [C, H, W]; empty if the input says them.
      dtype: NumPy name of the type of the stored numbers; "" if nothing says it.
      limits: the numbers of black and white; None for 0 and the largest number of the type.
    """

    shape: tuple[int, ...] = ()
    dtype: str = ""
    limits: tuple[float, float] | None = None

    def __str__(self) -> str:
        limits = "..".join(f"{number:.15g}" for number in self.limits or ())
        return ":".join(filter(None, ("x".join(map(str, self.shape)), self.dtype, limits)))


def read_pixels(word: Any) -> PixelForm:
    """Reads the setting."""
    found = _FORM.fullmatch(str(word))
    ends = tuple(as_number(end) for end in found.groups()[2:] if end) if found else ()
    if found is None or None in ends or (ends and ends[0] == ends[1]):
        raise ValueError(f"{_EXPECTED}; types are {', '.join(TYPES)}")
    shape = tuple(map(int, found[1].split("x"))) if found[1] else ()
    return PixelForm(shape, found[2], (ends[0], ends[1]) if ends else None)  # type: ignore[arg-type]


def write_pixels(form: PixelForm | None) -> str | None:
    """Writes the setting."""
    return str(form) if form else None


class LabelType(str, enum.Enum):
    """Kind of labels: CLASS for class names or indices, FLOAT for regression, TEXT for text such as captions."""

    CLASS = "class"
    FLOAT = "float"
    TEXT = "text"


class UnknownLabels(str, enum.Enum):
    """Meaning of -1 next to zeros and ones: REJECT the row, NO or YES. An empty cell then means no."""

    REJECT = "reject"
    NO = "no"
    YES = "yes"


def _read_words(word: Any) -> tuple[str, ...]:
    return read_names(word) if word not in ("", []) else ()


def _read_patterns(word: Any) -> str:
    return ",".join(f"{name}={path}" for name, path in word.items()) if isinstance(word, dict) else str(word)


def _read_unknown(word: Any) -> Any:
    # YAML parses yes and no as booleans.
    return one_of(UnknownLabels)({True: "yes", False: "no"}.get(word, word) if isinstance(word, bool) else word)


def _read_delimiter(word: Any) -> str:
    delimiter = {"tab": "\t", "\\t": "\t"}.get(str(word), str(word))
    if len(delimiter) != 1 or delimiter in '"\r\n' or (not delimiter.isprintable() and delimiter != "\t"):
        raise ValueError("expected one character, or tab")
    return delimiter


def _read_encoding(word: Any) -> str:
    try:
        "a".encode(str(word))
    except LookupError:
        raise ValueError("unknown encoding; expected one such as utf-8, utf-16, cp1252 or shift_jis") from None
    return str(word)


@dataclasses.dataclass(frozen=True)
class TableSettings:
    """How to read the rows of a table, or of another source with columns.

    Attributes:
      delimiter: cell delimiter of a csv file; None to detect it.
      encoding: encoding of a csv or jsonl file; None to detect it.
      image_column: column with the image path, or comma-separated columns of several images; None to find it by usual
        names.
      image_path: pattern that makes the image path from columns, such as `train/{id}.jpg`, or several with names, such
        as `left={a}.jpg,right={b}.jpg`.
      pixels: how images are stored as numbers, as far as the input does not say it; None if it says all.
      label_column: column with the label; None for usual names.
      label_columns: columns of zeros and ones, one per class; empty if one column has the labels.
      label_type: type of the labels.
      mask_column: column with the mask path; None for usual names.
      split_column: column with the split; None for usual names, "" for no column.
      key_column: column with the key; None for the image path as written, or the row number in rows without images.
      group_column: column whose equal values keep samples in one split, if splits are fractions.
      group_rows: whether rows with the same key form one sample with the labels and objects of all.
      label_separator: separator of several labels in one cell; "" for one label per cell, None if unknown.
      unknown_labels: meaning of -1 and empty cells next to zeros and ones; None raises an error if first rows have -1.
      missing_values: words that mean an empty cell, in columns that are not features.
      box_columns: columns with the coordinates of the box in each row; empty to find them by usual names.
      box_format: meaning of the coordinates, such as two corners.
      box_unit: pixels, or fractions of the image size.
      run_order: direction in which run lengths of masks count the pixels.
    """

    delimiter: str | None = input_setting(
        None, help="separates the cells of a csv file", read=_read_delimiter, shown_default="detected"
    )
    encoding: str | None = input_setting(
        None, help="encoding of a csv or jsonl file", read=_read_encoding, shown_default="detected"
    )
    image_column: str | None = input_setting(
        None,
        help="column with the image's path, or the columns of several images with commas between them",
        read=lambda word: ",".join(map(str, word)) if isinstance(word, list | tuple) else str(word),
        shown_default="image",
    )
    image_path: str | None = input_setting(
        None,
        help="pattern of the images' paths over columns, such as train/{id}.jpg, {id[0:2]}/{id}.jpg or "
        "{number:04d}.jpg; or several, such as left={a}.jpg,right={b}.jpg",
        read=_read_patterns,
    )
    pixels: PixelForm | None = input_setting(
        None,
        help="size, type, black and white of images that are stored as numbers, such as 28x28:uint8 or float32:0..1",
        read=read_pixels,
        write=write_pixels,
        shown_default="from the records",
    )
    label_column: str | None = input_setting(None, help="column with the label", shown_default="label")
    label_columns: tuple[str, ...] = input_setting(
        (),
        help="columns of zeros and ones, one for each class, comma-separated",
        read=read_names,
        write=write_list,
        shown_default="",
    )
    label_type: LabelType = input_setting(
        LabelType.CLASS,
        help="kind of the labels of a table: class, float (regression) or text (captions)",
        read=one_of(LabelType),
    )
    mask_column: str | None = input_setting(
        None, help="column with the mask's path, or with masks of objects", shown_default="mask"
    )
    split_column: str | None = input_setting(None, help="column with the split", shown_default="split")
    key_column: str | None = input_setting(None, help="column with the key", shown_default="the image's path")
    group_column: str | None = input_setting(
        None, help="column whose equal values stay in one split (with fractions in `splits`)"
    )
    group_rows: bool = input_setting(
        False,
        help="make one sample of the rows with the same image, with all their labels and objects",
        read=switch,
    )
    label_separator: str | None = input_setting(None, help="separates several labels in one cell")
    unknown_labels: UnknownLabels | None = input_setting(
        None,
        help="meaning of -1 beside zeros and ones: reject (its row), no or yes; an empty cell then means no",
        read=_read_unknown,
        shown_default="refused",
    )
    missing_values: tuple[str, ...] = input_setting(
        ("NaN", "nan", "N/A", "None", "null", "NULL", "?"),
        help="words in a table's columns of labels, splits, groups, keys and images that mean an empty cell",
        read=_read_words,
        write=list,
        shown_default="NaN,nan,N/A,None,null,NULL,?",
    )
    box_columns: tuple[str, ...] = input_setting(
        (),
        help="columns with the sides of a box in each row, such as x1,y1,x2,y2, or one with lists of them",
        read=read_names,
        write=write_list,
        shown_default="",
    )
    box_format: BoxFormat = input_setting(
        BoxFormat.AUTO,
        help="numbers of a box in a table: xyxy (two corners), xywh (corner, size) or cxcywh (center, size)",
        read=one_of(BoxFormat),
    )
    box_unit: BoxUnit = input_setting(
        BoxUnit.AUTO,
        help="unit of boxes in a table: pixels, or shares of the image's size",
        read=one_of(BoxUnit),
    )
    run_order: RunOrder = input_setting(
        RunOrder.COLUMNS,
        help="direction in which a table's run lengths of masks count: down the columns, or along the rows",
        read=one_of(RunOrder),
    )


DETECTED = TableSettings()
