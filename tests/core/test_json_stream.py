"""Arrays of a large JSON object, element by element."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.sources.annotated import json_stream
from beam_tfrecords.transforms.sources.annotated.json_stream import JsonError, read_arrays
from tests.each import each

TEXTS = st.text(max_size=4)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
DOCUMENTS = st.dictionaries(st.sampled_from(["info", "images", "x"]) | TEXTS, VALUES, max_size=3).flatmap(
    lambda others: st.fixed_dictionaries({"images": st.lists(VALUES, max_size=5)}).map(lambda own: {**others, **own})
)


class Trickle(io.RawIOBase):
    """A file that is read a few bytes at a time, whatever is asked for."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__()
        self._file, self._size = io.BytesIO(data), size

    def read(self, size: int = -1) -> bytes:
        return self._file.read(self._size)


def read(data: bytes | IO[bytes], *names: str) -> list[tuple[str, Any]]:
    return list(read_arrays(io.BytesIO(data) if isinstance(data, bytes) else data, names))


@given(DOCUMENTS, st.integers(1, 7), st.booleans(), st.sampled_from([None, 1]))
def test_every_element_is_read_whatever_the_pieces_of_the_file(document, size, ascii_only, indent):
    data = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        return
    assert [value for _, value in read(Trickle(data, size), "images")] == document["images"]
    assert [value for _, value in read(Trickle(b"\xef\xbb\xbf" + data, size), "images")] == document["images"]


def test_arrays_come_in_the_order_of_the_file_and_others_are_skipped():
    data = b'{"b": [1, {"a": 2}], "info": {"b": [5]}, "a": [], "c": [7], "number": 12, "b2": [[8]]}'
    assert read(data, "a", "b", "b2") == [("b", 1), ("b", {"a": 2}), ("b2", [8])]
    assert read(b" {} ", "a") == []


@each(
    "data, problem",
    [
        (b"[1]", "expected {, found \\[, at character 0"),
        (b"", "expected {, found the end of the file"),
        (b'{"a": {}}', "expected \\[, found {, at character 6"),
        (b'{"a": [1, 2', "expected , or \\], found the end of the file, at character 11"),
        (b'{"a": [1 2]}', "expected , or \\], found 2, at character 9"),
        (b'{"a": [1,]}', "Expecting value, at character 9"),
        (b'{"a": [{"b": tru}]}', "Expecting value, at character 13"),
        (b'{"a": ["\xff"]}', "not valid UTF-8"),
        (b'{"a": [' + b"[" * 100_000, "nested too deeply"),
        (b'{"a": [' + b"9" * 5000 + b"]}", "Exceeds the limit"),
    ],
)
def test_damage_is_named_with_its_place(data, problem):
    with pytest.raises(JsonError, match=problem):
        read(data, "a")


def test_an_element_without_an_end_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(json_stream, "_MOST_CHARACTERS", 4 << 20)
    endless = io.BytesIO(b'{"a": ["' + b"x" * (64 << 20))
    with pytest.raises(JsonError, match="a value is damaged, or has more than 4 million characters"):
        read(endless, "a")
    assert endless.tell() < 16 << 20


def test_the_memory_does_not_grow_with_the_file():
    element = json.dumps({"caption": "x" * 4000}).encode()
    data = io.BytesIO(b'{"a": [' + b",".join([element] * 4000) + b"]}")
    tracemalloc.start()
    assert sum(1 for _ in read_arrays(data, ["a"])) == 4000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 << 20 < len(data.getvalue())
