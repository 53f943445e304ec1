"""Ranges of rows: workers that read one each find the rows that one reader of the whole table finds."""

from __future__ import annotations

import csv
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beam_tfrecords.transforms.sources.tables import parquet_table, text_table
from beam_tfrecords.transforms.sources.tables.csv_table import open_table as open_csv
from beam_tfrecords.transforms.sources.tables.jsonl_table import open_table as open_jsonl
from beam_tfrecords.transforms.sources.tables.parquet_table import open_table as open_parquet
from beam_tfrecords.transforms.sources.tables.table import RowRange
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

TEXTS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
PIECES = [
    b'"', b'""', b",", b"\n", b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"a", b"\xc3\xa9", b" ", b"a,b\n", b'"a\nb",c\n',
    b"0.jpg,b\n", b"\n\n", b"\xef\xbb\xbf",
]  # fmt: skip


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    monkeypatch.setattr(text_table, "RANGE_BYTES", 24)
    monkeypatch.setattr(text_table, "_NOTED_BYTES", 0)
    monkeypatch.setattr(parquet_table, "_RANGE_ROWS", 10)


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write


def check(table):
    """All ranges together are the table, with the same numbers of rows and lines; returns them."""
    whole = list(table.rows(table.columns))
    ranges, _ = table.cut()
    found = {}
    for part in ranges:
        for number, row in enumerate(table.rows(table.columns, part), part.row):
            assert number not in found
            found[number] = row
    assert found == dict(enumerate(whole))
    return ranges


@TEXTS
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=60), header=st.sampled_from([b"x,y", b'"x","y"', b" x, y"]))
@example([b"a,b\n"] * 50, b"x,y")
@example([b'"a\nb",c\n'] * 50, b"x,y")
@example([b"0.jpg,b\n"] * 10 + [b'"'] + [b"0.jpg,b\n"] * 30, b"x,y")
def test_any_csv_file(write, pieces, header):
    check(open_csv(write("m.csv", header + b"\n" + b"".join(pieces)), TableSettings(",")))


@TEXTS
@given(
    rows=st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=9))),
    bom=st.booleans(),
)
def test_any_csv_file_that_is_written_with_quotes(write, rows, bom):
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["a\nheader"], *rows])
    check(open_csv(write("m.csv", text.getvalue().encode("utf-8-sig" if bom else "utf-8")), TableSettings(",")))


@TEXTS
@given(
    lines=st.lists(
        st.sampled_from([b'{"a": 1}', b"", b" ", b"\xc2\xa0", b"{", b"[]", b'{"a": "\xff"}', b'{"a": "\\n"}', b"\r"])
    ),
    end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_any_jsonl_file(write, lines, end):
    check(open_jsonl(write("m.jsonl", b'{"a": 0}\n' + end.join(lines))))


@pytest.mark.parametrize(
    ("groups", "count"), [([100], 8), ([3, 4, 100, 1], 9), ([5] * 10, 5), ([25, 25], 4), ([1], 1), ([0], 0)]
)
def test_row_groups(write, groups, count):
    buffer = io.BytesIO()
    schema = pa.schema({"a": pa.int64()})
    with pq.ParquetWriter(buffer, schema) as writer:
        for number, rows in enumerate(groups):
            writer.write_table(pa.table({"a": range(1000 * number, 1000 * number + rows)}, schema), row_group_size=1000)
    ranges = check(open_parquet(write("m.parquet", buffer.getvalue())))
    assert len(ranges) == count


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("row", [b"%d,b", b'"%d","b,b"', b'%d,"b\nb"'])
def test_a_plain_text_has_many_ranges(write, row, end):
    rows = [b"x,y", *(row % number for number in range(100))]
    ranges = check(open_csv(write("m.csv", end.join(rows))))
    assert len(ranges) > 20
    lines = [b'{"a": %d}' % number for number in range(100)]
    assert len(check(open_jsonl(write("m.jsonl", b"\n".join(lines))))) > 20


def test_what_cannot_be_cut_is_read_as_a_whole_and_the_reason_is_said(write):
    rows = b"x,y\n" + b"a,b\n" * 50
    ranges, problem = open_csv(write("m.csv.gz", gzip.compress(rows))).cut()
    assert (ranges, problem) == ([], "the file is compressed")
    ranges, problem = open_csv(write("m.csv", rows.decode().encode("utf-16"))).cut()
    assert (ranges, problem) == ([], "its encoding is utf-16")
    ranges, problem = open_csv(write("m.csv", rows + b'"a,b\n' + rows)).cut()
    assert "from line 52 on" in problem
    assert ranges[-1] == RowRange(50, 204, 413, 52)
    check(open_csv(write("m.csv", rows + b'"a,b\n' + rows)))


def test_numbers_of_rows_and_lines_in_failures_are_those_of_the_file(write):
    lines = [json.dumps({"a": number}) for number in range(40)]
    lines[30] = "damaged"
    table = open_jsonl(write("m.jsonl", "\n".join(lines).encode()))
    part = max(part for part in table.cut()[0] if part.row <= 30)
    assert part.row > 0
    row = list(table.rows(["a"], part))[30 - part.row]
    assert row.detail.startswith("line 31: ")
