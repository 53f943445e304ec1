"""Tags of YAML for values of cases.

- `!lines [header, {40: "[n].png,[cat|dog]"}]` is a text of lines, also of as many as a number says. `[n]` is the number
  of such a line, `[cat|dog]` has one word after the other, and `[x*300]` has a text 300 times.
- `!in/utf-16 "text"` is a text in an encoding.
- `!picture red 8x8` has the bytes of a picture.
- `!tfrecord [{name: text}, {40: {name: 3}}]` is a file of examples, also of as many as a number says; `{context: {...},
  lists: {...}}` is a SequenceExample, and a text a record of another kind. `!tfrecord {rows: [...], form: gzip}` is
  compressed.
- `!npy VALUE`, `!npz {name: VALUE}`, `!idx VALUE` and `!cifar {images: VALUE, labels: [[...]]}` are files of arrays;
  `!gzip/idx VALUE` is compressed. A value is a list of numbers or texts, `{values: [...], type: uint8}`, or pictures,
  `{of: [red, green], size: 9x8}`: [N, H, W, 3]. The `form` of pictures may be `gray`, `channel`, `opaque`, `planes` or
  `turned`, and `order: F` is the order of their numbers. `compress: true` in `!npz` compresses it.
- `!parquet {rows: [...], types: {...}, features: {...}, ...}` is a Parquet file. `types` has Arrow's names of the types
  of columns, `features` has the description that Hugging Face's datasets writes; the rest are options of the writer.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.framing import example_of, framed, sequence_of
from tests.pictures import COLORS, picture
from tests.pixel_files import cifar_of, idx_of


def _lines(parts: Sequence[Any]) -> str:
    """Returns the text of `!lines`."""
    lines = []
    for part in parts:
        counts = part.items() if isinstance(part, dict) else [(1, part)]
        lines += [_fill(text, number) for count, text in counts for number in range(count)]
    return "".join(f"{line}\n" for line in lines)


def _fill(text: str, number: int) -> str:
    words = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
    chosen = words.sub(lambda match: (parts := match[1].split("|"))[number % len(parts)], text)
    repeated = re.sub(r"\[([^\[\]]+|.)\*(\d+)\]", lambda match: match[1] * int(match[2]), chosen)
    return repeated.replace("[n]", str(number))


def parquet_of(
    rows: Sequence[Mapping[str, Any]],
    types: Mapping[str, str] | None = None,
    features: Any = None,
    **options: Any,
) -> bytes:
    """Returns the file of `!parquet`."""
    table = pa.Table.from_pylist(list(rows))
    for name, kind in (types or {}).items():
        column = pa.array([row.get(name) for row in rows], pa.type_for_alias(kind))
        table = table.set_column(table.column_names.index(name), name, column)
    if features is not None:
        text = features if isinstance(features, str) else json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({b"huggingface": text.encode()})
    content = io.BytesIO()
    pq.write_table(table, content, **options)
    return content.getvalue()


def _tfrecord(rows: Sequence[Any], form: str = "none") -> bytes:
    """Returns the file of `!tfrecord`."""
    counts = [pair for row in rows for pair in (row.items() if isinstance(next(iter(row)), int) else [(1, row)])]
    records = [_record_of(_bytes_in(row)) for count, row in counts for _ in range(count)]
    compress = {"none": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[form]
    return compress(framed(*records))


def _record_of(row: Any) -> bytes:
    if isinstance(row, bytes):
        return row
    return sequence_of(row["context"], **row["lists"]) if "context" in row else example_of(row)


def _bytes_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _bytes_in(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_bytes_in(one) for one in value]
    return value.encode() if isinstance(value, str) else value


def _array(
    values: Any = None, *, of: Sequence[str] = (), size: str = "", form: str = "", type: Any = None, order: Any = "C"
) -> np.ndarray:
    """Returns the array of a value."""
    if not of:
        return np.array(values, type, order=order)
    width, height = map(int, size.split("x"))
    colors = np.stack([np.full((height, width, 3), COLORS[name]) for name in of])
    forms = {
        "": colors,
        "gray": colors[..., 0],
        "channel": colors[..., :1],
        "opaque": np.concatenate([colors, np.full_like(colors[..., :1], 255)], -1),
        "planes": colors.transpose(0, 3, 1, 2),
        "turned": colors[..., 0].transpose(0, 2, 1),
    }
    kind = np.dtype(type or np.uint8)
    level = {"u": 257 if kind.itemsize > 1 else 1, "f": 1 / 255}.get(kind.kind, 1)
    return (forms[form] * level).astype(kind, order=order)


def _npy(*values: Any, **named: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, _array(*values, **named))
    return content.getvalue()


def _npz(*, compress: bool = False, **arrays: Any) -> bytes:
    content = io.BytesIO()
    save = np.savez_compressed if compress else np.savez
    save(content, **{name: _array(**one) if isinstance(one, dict) else _array(one) for name, one in arrays.items()})
    return content.getvalue()


def _idx(*values: Any, **named: Any) -> bytes:
    return idx_of(_array(*values, **named))


def _cifar(images: Mapping[str, Any], labels: Sequence[Sequence[int]]) -> bytes:
    return cifar_of(_array(**images), *labels)


_TAGS: Mapping[str, Callable[..., Any]] = {
    **{"lines": _lines, "picture": picture, "parquet": parquet_of, "tfrecord": _tfrecord},
    **{"npy": _npy, "npz": _npz, "idx": _idx, "cifar": _cifar},
}


def add_tags(loader: Any) -> None:
    """Teaches a loader of YAML the tags."""
    for tag, make in _TAGS.items():
        loader.add_constructor(f"!{tag}", functools.partial(_construct, make))
    loader.add_multi_constructor(
        "!gzip/", lambda loader, tag, node: gzip.compress(_construct(_TAGS[tag], loader, node), mtime=0)
    )
    loader.add_multi_constructor("!in/", lambda loader, name, node: loader.construct_scalar(node).encode(name))


def _construct(make: Callable[..., Any], loader: Any, node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return make(**loader.construct_mapping(node, deep=True))
    if isinstance(node, yaml.SequenceNode):
        return make(loader.construct_sequence(node, deep=True))
    return make(loader.construct_scalar(node))


def expand(word: str) -> list[str]:
    """Returns the words that the braces in one stand for."""
    match = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", word)
    if match is None:
        return [word]
    first, last, parts = match.groups()
    inside = parts.split(",") if parts else [f"{one:0{len(first)}d}" for one in range(int(first), int(last) + 1)]
    return [name for one in inside for name in expand(word[: match.start()] + one + word[match.end() :])]
