"""Recognizes files of unsupported formats, and points to docs/unsupported.md for their conversion."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import is_image_name, without_number

# Enough bytes to recognize a format.
START_BYTES = 1 << 18
_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class UnsupportedFormat:
    """A file format that no source reads.

    Attributes:
      what: description for messages.
      heading: anchor of its section in docs/unsupported.md.
      names: pattern for file names, in lower case; None if names do not identify the format.
      starts: pattern for the first bytes; None if these do not identify the format.
    """

    what: str
    heading: str
    names: str | None = None
    starts: bytes | None = None

    @property
    def remedy(self) -> str:
        """Where its conversion is shown."""
        return f"docs/unsupported.md#{self.heading} shows how to convert it"


FORMATS = (
    UnsupportedFormat(
        "an Excel table",
        "excel-tables",
        r"\.(xlsx|xlsm|ods)$",
        rb"PK\x03\x04.{26}(\[Content_Types\]|_rels/|xl/|docProps/|mimetype)",
    ),
    UnsupportedFormat("an Excel table", "excel-tables", r"\.xls$", rb"\xd0\xcf\x11\xe0"),
    UnsupportedFormat("a pickle of CIFAR's Python version", "cifar-pickles", r"^(data_batch_\d|test_batch)$"),
    UnsupportedFormat("a file of PyTorch", "pytorch-files", r"\.pth?$"),
    UnsupportedFormat("a pickle, which may run any code", "pickles", r"\.(pkl|pickle)$", rb"\x80[\x02-\x05]"),
    UnsupportedFormat("an HDF5 file", "hdf5-files", r"\.(h5|hdf5)$", rb"\x89HDF"),
    UnsupportedFormat("an Arrow file of Hugging Face's datasets", "arrow-files", r"\.arrow$"),
    UnsupportedFormat("a MATLAB file", "matlab-files", r"\.mat$", rb"MATLAB \d"),
    UnsupportedFormat("an LMDB database", "lmdb-databases", r"\.(lmdb|mdb)$"),
    UnsupportedFormat("a 7z archive", "7z-and-rar-archives", r"\.7z$", rb"7z\xbc\xaf"),
    UnsupportedFormat("a RAR archive", "7z-and-rar-archives", r"\.rar$", rb"Rar!"),
)
# One number per line.
_LIST = re.compile(r"\.(?:txt|lst|list)$", re.IGNORECASE)
NUMBER_LIST = re.compile(rb"\s*\d+[ \t]*\r?\n[ \t]*\d+[ \t]*(?:\r?\n[ \t]*\d+[ \t]*)*\s*$")

# The path of an image, the number of its boxes, and its first box.
_BOX_LIST = re.compile(
    rb"(?:\xef\xbb\xbf)?[^\r\n]+\.(?:jpe?g|png|bmp)[ \t]*\r?\n[ \t]*\d+[ \t]*\r?\n"
    rb"[ \t]*(?:-?\d[\d.]*[ \t]+){3,}-?\d[\d.]*[ \t]*(?:\r?\n|$)",
    re.IGNORECASE,
)
# The numbers of folds and of pairs in each, and pairs of images: a name and two numbers, or a name and a number twice.
_PAIR_LIST = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\d+(?:[ \t]+\d+)?[ \t]*\r?\n)?"
    rb"(?:[^\W\d][^\t\r\n]*\t\d+\t(?:[^\W\d][^\t\r\n]*\t)?\d+[ \t]*(?:\r?\n|$)){2}"
)
PAIRS = UnsupportedFormat("a list of pairs of images, as that of LFW", "lists-of-pairs")
JSON_ARRAY = UnsupportedFormat("a JSON array", "json-arrays")
JSON_OBJECT = UnsupportedFormat("a JSON object of names and labels", "json-objects-of-names-and-labels")


def find_unsupported(path: str, start: bytes | None = None) -> UnsupportedFormat | None:
    """Returns the unsupported format of a file; None if it is not recognized.

    Args:
      path: path of the file, or a glob; used only if `start` is None.
      start: first bytes of the file; None to decide by the name.
    """
    if start is not None:
        return next((one for one in FORMATS if one.starts and re.match(one.starts, start, re.DOTALL)), None)
    name = storage.basename(path).lower()
    return next((one for one in FORMATS if one.names and re.search(one.names, name)), None)


def refuse_unsupported(path: str, found: UnsupportedFormat) -> RequestError:
    """Returns the error for a file of an unsupported format."""
    return RequestError(
        f"{quote_input(path)}: no source reads {found.what}; {found.remedy}",
        code="unsupported_format",
    )


def refuse_json(path: str, start: bytes) -> RequestError | None:
    """Returns the error for JSON that is not JSON lines, or lacks their extension; None for other text."""
    text = start.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if re.match(r"\[\s*\{", text):
        return refuse_unsupported(path, JSON_ARRAY)
    if not text.startswith("{"):
        return None
    if re.match(r"\{[^\n]*\}[ \t]*\r?\n\s*\{", text):
        return RequestError(
            f"{quote_input(path)} looks like JSON lines",
            [Reading("its rows", {"source": "jsonl"})],
            code="unknown_format",
        )
    if re.match(r'\{\s*"[^"]*"\s*:\s*(?:"[^"]*"|-?[\d.]+)\s*[,}]', text) and not re.search(r"[{\[]", text[1:]):
        return refuse_unsupported(path, JSON_OBJECT)
    return None


def refuse_text(path: str, start: bytes) -> RequestError | None:
    """Returns the error for a text that looks like a table or list but lacks the extension; None for other text."""
    if (refusal := refuse_list(path, start)) is not None:
        return refusal
    if NUMBER_LIST.match(start):
        return RequestError(
            f"{quote_input(path)} has a number in each line and names no image; write a table with a column of image "
            "names and one of the numbers, and use it as `input` with `image_root`",
            code="number_list",
        )
    lines = start.decode("utf-8", "replace").splitlines()[:-1][:_ROWS] or [start.decode("utf-8", "replace")]
    first, second, third, *_ = [*lines[:3], "", ""]
    for delimiter in (",", ";", "\t", "|", " "):
        settings = {"source": "csv"} if delimiter in ",;\t" else {"source": "csv", "delimiter": delimiter}
        are_named = [
            any(is_image_name(without_number(word)) for word in line.split(delimiter))
            for line in (first, second, third)
        ]
        has_count = first.strip().isdecimal() and are_named[2]
        if are_named[0] or has_count:
            shown, settings = "a list of images", {"source": "csv"} if _LIST.search(path) else settings
        elif are_named[1] and delimiter in first:
            shown = "a table"
        else:
            continue
        rows = Reading("its rows", settings)
        return RequestError(
            f"{quote_input(path)} looks like {shown}, but is not called .csv", [rows], code="unknown_format"
        )
    return None


def refuse_list(path: str, start: bytes) -> RequestError | None:
    """Returns the error for a list whose lines are not rows, with boxes or pairs of images; None for other text."""
    if _PAIR_LIST.match(start):
        return refuse_unsupported(path, PAIRS)
    if not _BOX_LIST.match(start):
        return None
    return RequestError(
        f"{quote_input(path)} is a list of boxes below their images, which only a mapping reads; "
        "`mapping=widerface` reads those of WIDER FACE",
        code="unknown_format",
    )


def refuse_embedded(path: str, column: str, settings: Mapping[str, str]) -> RequestError:
    """Returns the error for a Parquet file that contains the images themselves.

    Args:
      path: path of the file.
      column: column with the images.
      settings: settings that name the other columns.
    """
    return RequestError(
        f"{quote_input(path)}: column {column!r} contains the images, as Hugging Face datasets do; expected paths",
        [Reading("the images in it", {"source": "hf_parquet", "image_column": column, **settings})],
        code="embedded_images",
    )


def refuse_pixels(path: str, shape: Sequence[int], settings: Mapping[str, str]) -> RequestError:
    """Returns the error for a table that contains pixels.

    Args:
      path: path of the table.
      shape: shape of an image, [H, W] or [H, W, C].
      settings: settings that name the other columns.
    """
    height, width, *_ = shape
    return RequestError(
        f"{quote_input(path)} holds the pixels of {height} x {width} images; expected paths of images",
        [Reading("the images made from these pixels", {"source": "pixel_table", **settings})],
        code="embedded_pixels",
    )
