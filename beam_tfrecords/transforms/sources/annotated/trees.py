"""Reads documents as trees of dictionaries, lists and texts, sample by sample where the mapping allows it."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from beam_tfrecords import storage
from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.sources.annotated.compiled import names_of
from beam_tfrecords.transforms.sources.annotated.document_fields import DocumentFields
from beam_tfrecords.transforms.sources.annotated.json_stream import JsonError, read_elements
from beam_tfrecords.transforms.sources.annotated.mapping import HEADING, DocumentMapping, Expression
from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.names import is_image_name
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.cells import invalid_row

LINES = (".jsonl", ".ndjson", ".odgt", ".manifest", ".jsonlines")
ROWS = (".csv", ".tsv", ".txt", ".pts", ".gt")
# Limit for a document that is read as a whole.
_MOST_BYTES = 64 << 20


def read_samples(
    file: storage.FileEntry,
    mapping: DocumentMapping,
    *,
    most_bytes: int | None = None,
    fields: DocumentFields | None = None,
) -> Iterator[Any]:
    """Yields the part of a document for each sample; a `SampleError` in place of a damaged line or row.

    Args:
      file: the document.
      mapping: where things are in it.
      most_bytes: how much to read of rows, or of a list of samples in JSON; None for all.
      fields: counts the fields of the document.

    Raises:
      SampleError: the document is damaged, or an expression does not fit it.
    """
    name = file.path.lower()
    is_tree = not (name.endswith((*LINES, *ROWS)) or mapping.columns)
    streamed = None if name.endswith(".xml") else _find_stream(mapping.samples)
    if is_tree and streamed is None:
        yield from _read_tree(file, mapping, fields, is_xml=name.endswith(".xml"))
        return
    with storage.open_read(file.path, version=file.version) as opened:
        if name.endswith(LINES):
            yield from _find_each(_seen(read_lines(opened), fields), mapping)
        elif name.endswith(ROWS) or mapping.columns:
            rows = _read_rows(
                _decode(opened, most_bytes), mapping, is_csv=name.endswith((".csv", ".tsv")) and mapping.quotes
            )
            if mapping.image.text == HEADING:
                yield from _seen(_group_rows(rows), fields)
                return
            rows = _seen(rows, fields, are_rows=True)
            if mapping.samples is None:
                found = list(rows)
                yield next((row for row in found if isinstance(row, SampleError)), found)
            else:
                yield from _find_each((row if isinstance(row, SampleError) else [row] for row in rows), mapping)
        elif streamed is not None:
            yield from _stream_json(opened, *streamed, most_bytes, fields)


def read_class_names(file: storage.FileEntry, mapping: DocumentMapping) -> Any:
    """Returns what the expression for class names finds in a document, which is read as `read_samples` reads it."""
    assert isinstance(mapping.class_names, Expression)
    found = list(read_samples(file, dataclasses.replace(mapping, samples=mapping.class_names)))
    return found[0] if len(found) == 1 and isinstance(found[0], dict) else found


def _seen(parts: Iterable[Any], fields: DocumentFields | None, *, are_rows: bool = False) -> Iterator[Any]:
    """Yields the parts of a document, and counts their fields."""
    for part in parts:
        if fields is not None and not isinstance(part, SampleError):
            fields.add(part, document=[part] if are_rows else part)
        yield part


def holds_one(path: str, mapping: DocumentMapping) -> bool:
    """Whether a document is one sample."""
    return mapping.samples is None and mapping.image.text != HEADING and not path.lower().endswith(LINES)


def _find_each(parts: Iterable[Any], mapping: DocumentMapping) -> Iterator[Any]:
    for part in parts:
        try:
            yield from [part] if isinstance(part, SampleError) else _find_samples(part, mapping)
        except SampleError as error:
            yield error


def _find_samples(document: Any, mapping: DocumentMapping) -> Sequence[Any]:
    if mapping.samples is None:
        return [document]
    found = mapping.samples.find(document)
    return found if isinstance(found, list) else [] if found is None else [found]


def _read_tree(
    file: storage.FileEntry, mapping: DocumentMapping, fields: DocumentFields | None, *, is_xml: bool
) -> Sequence[Any]:
    if file.size > _MOST_BYTES:
        raise invalid_row(f"more than {_MOST_BYTES >> 20} MiB")
    # Opening a file and reading from it takes longer.
    data = storage.read_bytes(file.path, version=file.version, size=file.size)
    try:
        if is_xml:
            tree = to_tree(parse_xml(data), mapping.listed)
        else:
            are_data = mapping.samples is not None and "items(" in mapping.samples.text
            tree = read_json(data.removeprefix(b"\xef\xbb\xbf"), are_names_data=are_data)
        if fields is not None:
            fields.add(tree)
        return _find_samples(tree, mapping)
    except ValueError as error:
        raise invalid_row(f"not valid JSON: {error}") from None
    except RecursionError:
        raise invalid_row("nested too deeply") from None


# JSON


def _stream_json(
    file: Any,
    paths: Sequence[Sequence[str]],
    of_object: bool,
    rest: Expression,
    most_bytes: int | None,
    fields: DocumentFields | None,
) -> Iterator[Any]:
    """Yields what an expression finds in each element of the first of several arrays or objects that has any."""
    try:
        is_cut = False
        if most_bytes is not None:
            start = file.read(most_bytes)
            file, is_cut = io.BytesIO(start), len(start) == most_bytes
        for names in paths:
            file.seek(0)
            element, others = None, Counter[str]()
            with contextlib.suppress(JsonError) if is_cut else contextlib.nullcontext():
                for element in read_elements(file, names, of_object=of_object, others=others):
                    if fields is not None:
                        path = ".".join([*names, "*"]) if of_object else f"{'.'.join(names)}[]"
                        fields.add(element, path, document=[element], samples=rest)
                    yield from rest.find([element]) or ()
            if element is not None:
                if fields is not None:
                    fields.add_others(others)
                return
    except (JsonError, ValueError) as error:
        raise invalid_row(f"not valid JSON: {error}") from None
    except RecursionError:
        raise invalid_row("nested too deeply") from None


def _find_stream(samples: Expression | None) -> tuple[list[Sequence[str]], bool, Expression] | None:
    """Returns where the elements are that an expression goes through; None if it needs the whole document.

    Returns:
      The names that lead to an array or object, for each that may have the elements; whether it is an object; and the
      expression for a list of one element.
    """
    if samples is None:
        return None
    tree = samples.tree
    around = []
    while tree["type"] in ("projection", "filter_projection", "flatten"):
        around.append(tree)
        tree = tree["children"][0]
    of_object = tree["type"] == "function_expression" and tree["value"] in ("values", "elements")
    paths = _find_paths(tree["children"][0] if of_object else tree)
    if not paths or not (around or of_object):
        return None
    rest: Any = {"type": "identity", "children": []}
    for node in reversed(around):
        rest = {**node, "children": [rest, *node["children"][1:]]}
    return paths, of_object, Expression(samples.key, samples.text, rest)


def _find_paths(tree: Any) -> list[Sequence[str]]:
    """Returns the names of an expression such as `a.b`, or of each in `a || @`; an empty list for others."""
    parts = tree["children"] if tree["type"] == "or_expression" else [tree]
    found = [names for one in parts if (names := names_of(one)) is not None]
    return found if len(found) == len(parts) else []


def read_lines(file: Any) -> Iterator[Any]:
    """Yields the values of JSON lines; a `SampleError` in place of a damaged one."""
    for number, line in enumerate(iter(functools.partial(file.readline, _MOST_BYTES), b""), 1):
        if not line.strip():
            continue
        try:
            yield read_json(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
        except (ValueError, RecursionError) as error:
            yield invalid_row(f"line {number}: not valid JSON: {error}")


# XML


def parse_xml(data: bytes) -> ElementTree.Element:
    """Parses XML and rejects document types, because only these define entities, which may expand or open files.

    Raises:
      SampleError: the data is not XML, or has a document type.
    """
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(data, True)
        return builder.close()
    except (expat.ExpatError, LookupError, ValueError, AssertionError) as error:
        raise invalid_row(f"not valid XML: {error}") from None


def _refuse_doctype(*_: object) -> None:
    raise invalid_row("the XML has a document type or entities, which are not read")


def to_tree(element: ElementTree.Element, listed: frozenset[str]) -> Any:
    """Returns attributes and children of an element as a dictionary, or its text if it has neither.

    A child that occurs several times is a list, and so is one that an expression takes for a list.
    """
    children: dict[str, Any] = {}
    repeated: set[str] = set()
    for child in element:
        name = child.tag.rpartition("}")[2] if "}" in child.tag else child.tag
        # Most children are leaves.
        found = to_tree(child, listed) if len(child) or child.attrib else child.text.strip() if child.text else ""
        if name not in children:
            children[name] = [found] if name in listed else found
        elif name in listed or name in repeated:
            children[name].append(found)
        else:
            children[name] = [children[name], found]
            repeated.add(name)
    tree = element.attrib | children
    text = (element.text or "").strip()
    if tree and text:
        tree.setdefault("text", text)
    return tree or text


# Text


def _decode(file: Any, most_bytes: int | None) -> Iterator[str]:
    if most_bytes is not None:
        file = io.BytesIO(b"".join(file.readlines(most_bytes)))
    try:
        yield from io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    except UnicodeDecodeError:
        raise invalid_row("not valid UTF-8") from None


def _read_rows(
    lines: Iterator[str], mapping: DocumentMapping, *, is_csv: bool
) -> Iterator[dict[str, Any] | SampleError]:
    """Yields column -> text for each row; for text files, further cells belong to the last column.

    A row of CSV with more cells than columns is a `SampleError`.
    """
    columns = mapping.columns
    cells = _read_csv(lines) if is_csv else _split_lines(lines, len(columns), mapping.separator)
    for row in cells:
        if not columns:
            columns = [one.strip() for one in row]
        elif any(row[len(columns) :]):
            yield invalid_row(f"a row has {len(row)} cells, and there are {len(columns)} columns: {shorten(str(row))}")
        elif [one.strip() for one in row] != list(columns):
            yield dict(zip(columns, row, strict=False))


def _read_csv(lines: Iterator[str]) -> Iterator[list[str]]:
    first = next(lines, "")
    delimiter = max(",;\t", key=first.count)
    try:
        for row in csv.reader(itertools.chain([first], lines), delimiter=delimiter):
            if any(row):
                yield row
    except csv.Error as error:
        raise invalid_row(f"not valid CSV: {error}") from None


def _split_lines(lines: Iterable[str], count: int, separator: str) -> Iterator[list[str]]:
    """Yields the cells of each line; without a separator, by tabs, commas if the first word has one, or spaces."""
    for line in map(str.strip, lines):
        if not line:
            continue
        found = "\t" if "\t" in line else "," if "," in line.split(maxsplit=1)[0] else " "
        yield [one.strip() for one in line.split((separator or found).strip(" ") or None, max(count - 1, 0))]


def _group_rows(rows: Iterable[dict[str, Any] | SampleError]) -> Iterator[dict[str, Any] | SampleError]:
    """Yields the rows below each line with the name of an image, as `rows`, and the name as `heading`."""
    sample: dict[str, Any] | None = None
    for row in rows:
        if isinstance(row, SampleError):
            yield row
            continue
        cells = list(row.values())
        if is_image_name(" ".join(cells)):
            if sample is not None:
                yield sample
            sample = {HEADING: " ".join(cells), "rows": []}
        elif sample is not None and len(cells) > 1:  # A single number is a count of rows.
            sample["rows"].append(row)
    if sample is not None:
        yield sample
