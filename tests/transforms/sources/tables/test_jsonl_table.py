from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_tfrecords.transforms.sources.tables.jsonl_table import open_jsonl
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow
from tests.each import each
from tests.refusals import refuses


@pytest.fixture
def table(tmp_path):
    def write(data: bytes):
        (tmp_path / "m.jsonl").write_bytes(data)
        return open_jsonl(str(tmp_path / "m.jsonl"))

    return write


def test_the_first_objects_name_the_columns_and_rows_may_lack_some(table):
    opened = table(b'{"a": 1, "b": "x"}\n{"b": "y", "c": 3}\n')
    assert opened.columns == ("a", "b", "c")
    assert list(opened.rows(["a", "c"])) == [{"a": 1, "c": None}, {"a": None, "c": 3}]


@each("name, is_meant", [("split", True), ("label", True), ("bbox", True), ("weather", False)])
def test_a_row_with_a_late_field_that_may_be_meant_is_invalid(table, name, is_meant):
    opened = table(b'{"a": 1}\n' * 1000 + b'{"a": 2, "%s": "x"}\n' % name.encode() + b'{"a": 3}\n')
    *_, late, last = opened.rows(["a"])
    assert isinstance(late, InvalidRow) == is_meant
    assert last == {"a": 3}


def test_a_bom_windows_line_ends_and_empty_lines_are_read(table):
    opened = table(b'\xef\xbb\xbf{"a": "\xc3\xa9"}\r\n\r\n  \n{"a": 2}')
    assert list(opened.rows(["a"])) == [{"a": "é"}, {"a": 2}]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"[1]\n", b"{broken\n"])
def test_a_file_without_an_object_is_refused(table, data):
    with refuses("invalid_file", "input"):
        table(data)


@pytest.mark.parametrize(
    ("bad", "detail"),
    [
        (b"[1, 2]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"a": 1', "line 2: "),
        (b'{"a": 1}{"a": 2}', "Extra data"),
        (b'{"a": "\xff"}', "not valid UTF-8"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        (b'{"a": "' + b"x" * MOST_ROW_SIZE + b'"}', "more than 4,194,304 characters"),
        (b"\0", "line 2: "),
    ],
)
def test_a_damaged_row_is_invalid_and_the_rows_around_it_are_read(table, bad, detail):
    rows = list(table('{"a": 0, "b": "é"}\n'.encode() + bad + b'\n{"a": 3}\n').rows(["a"]))
    assert rows[0] == {"a": 0}
    assert isinstance(rows[1], InvalidRow)
    assert rows[1].detail.startswith("line 2: ")
    assert detail in rows[1].detail
    assert rows[2:] == [{"a": 3}]


def test_damaged_rows_before_the_first_object_are_rows(table):
    opened = table(b'broken\n{"a": 1}\n')
    assert opened.columns == ("a",)
    first, second = opened.rows(["a"])
    assert isinstance(first, InvalidRow)
    assert second == {"a": 1}


CELL = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.lists(st.integers())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(st.fixed_dictionaries({"a": CELL, "b": CELL}), min_size=1), ascii=st.booleans())
def test_what_json_dumps_writes_is_read_back(table, rows, ascii):
    data = "\n".join(json.dumps(row, ensure_ascii=ascii) for row in rows).encode("utf-8", "surrogatepass")
    assert list(table(data).rows(["a", "b"])) == rows
