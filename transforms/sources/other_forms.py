"""Files that no source reads: what they are, and the commands that make something of them that one reads.

A command writes beside the file, under its name and an ending, so that it replaces nothing.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Choice, RequestError
from beam_tfrecords.transforms.sources import form_programs as programs
from beam_tfrecords.transforms.sources.inputs import has_wildcards, quote_input
from beam_tfrecords.transforms.sources.names import is_image_name

# Enough to know a form by.
START_BYTES = 1 << 18


@dataclasses.dataclass(frozen=True)
class Form:
    """A kind of file that no source reads.

    Attributes:
      what: it is, for a message.
      names: of its files, in lower case.
      starts: first bytes that it has whatever its name; None if they do not tell.
      way: path -> what makes something of it that can be read; None if nothing here does.
    """

    what: str
    names: str
    starts: bytes | None
    way: Callable[[str], Choice] | None


def find_form(path: str, start: bytes | None = None) -> Form | None:
    """The form of a file.

    Args:
      path: of the file, or a glob; only its name is looked at.
      start: its first bytes; None if only the name shall tell.
    """
    name = storage.basename(path).lower()
    if start is None:
        return next((form for form in _FORMS if re.search(form.names, name)), None)
    return next((form for form in _FORMS if form.starts is not None and re.match(form.starts, start, re.DOTALL)), None)


def refuse_form(path: str, form: Form) -> RequestError:
    """The refusal of a file of a form that no source reads; one in a bucket has to be copied first."""
    if has_wildcards(path):
        return RequestError(f"{quote_input(path)} names {form.what}, which no source reads; give one for what to do")
    choices = [form.way(path)] if form.way and not storage.has_scheme(path) else []
    where = "; copy it to a disk first, to be told how to convert it" if form.way and not choices else ""
    return RequestError(f"{quote_input(path)} is {form.what}, which no source reads{where}", choices)


def refuse_json(path: str, start: bytes) -> RequestError | None:
    """The refusal of a JSON file that is not JSON lines, or is not called so; None for other text."""
    text = start.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if re.match(r"\[\s*\{", text):
        way = Choice("its elements as rows", {"input": f"{path}.jsonl"}, [_run(programs.LINES, path, to=".jsonl")])
        return refuse_form(path, Form("a JSON array, not JSON lines", "", None, lambda _: way))
    if not text.startswith("{"):
        return None
    if re.match(r"\{[^\n]*\}[ \t]*\r?\n\s*\{", text):
        return RequestError(f"{quote_input(path)} looks like JSON lines", [Choice("its rows", {"source": "jsonl"})])
    if re.match(r'\{\s*"[^"]*"\s*:\s*(?:"[^"]*"|-?[\d.]+)\s*[,}]', text):
        way = Choice("its names as images", {"input": f"{path}.jsonl"}, [_run(programs.ITEMS, path, to=".jsonl")])
        return refuse_form(path, Form("a JSON object of names and labels", "", None, lambda _: way))
    return None


def refuse_text(path: str, start: bytes) -> RequestError | None:
    """The refusal of a text that looks like a table or a list of images, without the extension of one."""
    first, second, *_ = [*start.decode("utf-8", "replace").splitlines()[:2], "", ""]
    for delimiter in (",", ";", "\t", " "):
        cells = first.split(delimiter)
        settings = {"source": "csv"} if delimiter in ",;\t" else {"source": "csv", "delimiter": delimiter}
        if any(map(is_image_name, cells)):
            shown, choices = "a list of images", name_columns(path, cells, delimiter)
        elif len(cells) > 1 and any(map(is_image_name, second.split(delimiter))):
            shown, choices = "a table", [Choice("its rows", settings)]
        else:
            continue
        return RequestError(f"{quote_input(path)} looks like {shown}, but is not called .csv", choices)
    return None


def name_columns(path: str, cells: Sequence[str], delimiter: str) -> list[Choice]:
    """What writes a table with a first row: the first cell that names an image is one, the first other a label."""
    images = [number for number, cell in enumerate(cells) if is_image_name(cell)]
    labels = [number for number in range(len(cells)) if number not in images]
    if not images or storage.has_scheme(path) or path.endswith(".gz"):
        return []
    names = {images[0]: "image", **({labels[0]: "label"} if labels else {})}
    header = delimiter.join(names.get(number, f"column_{number + 1}") for number in range(len(cells)))
    shown = header.replace("\t", "\\t")
    command = f"{{ printf '{shown}\\n'; cat {shlex.quote(path)}; }} > {shlex.quote(path + '.csv')}"
    settings = {**({"delimiter": " "} if delimiter == " " else {}), **({} if labels else {"layout": "image"})}
    return [Choice(f"the columns {shown}", {"input": f"{path}.csv", **settings}, [command])]


def refuse_embedded(path: str, column: str, settings: Mapping[str, str]) -> RequestError:
    """The refusal of a Parquet file with the images themselves.

    Args:
      column: that holds them.
      settings: that name the other columns.
    """
    return RequestError(
        f"{quote_input(path)}: column {column!r} holds the images themselves, as Hugging Face's do; expected paths",
        [Choice("the images in it", {"source": "hf_parquet", "image_column": column, **settings})],
    )


def refuse_pixels(path: str, shape: Sequence[int], settings: Mapping[str, str]) -> RequestError:
    """The refusal of a table with the pixels of images of some shape.

    Args:
      path: of the table.
      shape: of an image.
      settings: that name the other columns.
    """
    height, width, *_ = shape
    return RequestError(
        f"{quote_input(path)} holds the pixels of images of {height} x {width}; expected their paths",
        [Choice("the images that the pixels make", {"source": "pixel_table", **settings})],
    )


def _run(code: str, *arguments: str, to: str = "") -> str:
    """A command that runs Python; its output goes to the first argument and an ending."""
    words = shlex.join(["python3", "-c", code, *arguments])
    return f"{words} > {shlex.quote(arguments[0] + to)}" if to else words


def _save(load: str) -> Callable[[str], Choice]:
    """The way of a file of arrays, which an expression loads."""
    return lambda path: Choice(
        "its arrays", {"input": f"{path}.npz"}, [_run(programs.SAVE_ARRAYS.format(load=load), path)]
    )


def _table(path: str, kind: str) -> Choice:
    return Choice("its rows as a csv file", {"input": f"{path}.csv"}, [_run(programs.FRAME.format(kind), path)])


def _unpack(path: str) -> Choice:
    command = shlex.join(["7z", "x", f"-o{path}.images", path])
    return Choice("its files", {"input": f"{path}.images"}, [command])


def _save_values(path: str) -> Choice:
    command = _run(programs.LMDB, path)
    return Choice("its values as images without labels", {"input": f"{path}.images", "layout": "image"}, [command])


_FORMS = (
    Form("an Excel table", r"\.(xlsx|xlsm|ods)$", rb"PK\x03\x04.{26}(\[Content_Types\]|_rels/|xl/|docProps/|mimetype)",
         lambda path: _table(path, "excel")),
    Form("an Excel table", r"\.xls$", rb"\xd0\xcf\x11\xe0", lambda path: _table(path, "excel")),
    Form("a pickle of CIFAR's Python version (the folder of the binary version, cifar-10-binary.tar.gz, is read)",
         r"^(data_batch_\d|test_batch)$", None, None),
    Form("a file of PyTorch", r"\.pth?$", None, _save(programs.TORCH)),
    Form("a pickle, which may run any code", r"\.(pkl|pickle)$", rb"\x80[\x02-\x05]",
         lambda path: _table(path, "pickle")),
    Form("an HDF5 file", r"\.(h5|hdf5)$", rb"\x89HDF", _save(programs.HDF5)),
    Form("an LMDB database", r"\.(lmdb|mdb)$", None, _save_values),
    Form("a 7z archive", r"\.7z$", rb"7z\xbc\xaf", _unpack),
    Form("a RAR archive", r"\.rar$", rb"Rar!", _unpack),
)  # fmt: skip
