from __future__ import annotations

import csv
import io
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_tfrecords.transforms.sources.detect.judge import describe_unused
from beam_tfrecords.transforms.sources.tables.csv_table import open_csv
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow
from beam_tfrecords.transforms.sources.tables.table_settings import TextSettings
from tests.refusals import refuses


@pytest.fixture
def table(tmp_path):
    def write(data: bytes, delimiter: str | None = None):
        (tmp_path / "m.csv").write_bytes(data)
        return open_csv(str(tmp_path / "m.csv"), TextSettings(delimiter))

    return write


def all_rows(table):
    return list(table.rows(table.columns))


def test_quotes_hold_delimiters_line_ends_and_quotes(table):
    data = b'image,label\r\n"a,1.jpg","two\r\nlines"\r\nb.jpg,"say ""cat"""\r\n'
    assert all_rows(table(data)) == [
        {"image": "a,1.jpg", "label": "two\r\nlines"},
        {"image": "b.jpg", "label": 'say "cat"'},
    ]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_every_line_end_and_a_bom_are_read(table, end, bom):
    assert all_rows(table(bom + end.join([b"x,y", "é,ü".encode(), b"1,2"]))) == [
        {"x": "é", "y": "ü"},
        {"x": "1", "y": "2"},
    ]


def test_the_delimiter_is_the_one_given(table):
    assert all_rows(table(b"a\tb\n1,2\t3\n", "\t")) == [{"a": "1,2", "b": "3"}]
    assert table(b"a;b\n1;2\n", ",").columns == ("a;b",)


@pytest.mark.parametrize(
    ("numbers", "note"),
    [("01", []), ("ab", ["not stored: m.csv: a column without a name; give it a name to use it"])],
)
def test_the_row_numbers_of_pandas_are_no_column(table, numbers, note):
    data = "".join(f"{number},{number}.jpg,cat\n" for number in numbers)
    assert describe_unused(table(b",image,label\n" + data.encode()), ["image", "label"]) == note


def test_empty_lines_are_ignored(table):
    assert all_rows(table(b"x\n\n1\n\n\n2\n\n")) == [{"x": "1"}, {"x": "2"}]


def test_only_the_columns_asked_for_are_read(table):
    assert list(table(b"a,b,c\n1,2,3\n").rows(["c", "a"])) == [{"c": "3", "a": "1"}]


@pytest.mark.parametrize("header", [b"center,left,speed\n", b""])
def test_spaces_behind_every_delimiter_are_no_part_of_the_cells(table, header):
    rows = all_rows(table(header + b"IMG/c.jpg, IMG/l.jpg, 22.1\nIMG/d.jpg, IMG/m.jpg, 9\n"))
    assert [[*row.values()] for row in rows] == [["IMG/c.jpg", "IMG/l.jpg", "22.1"], ["IMG/d.jpg", "IMG/m.jpg", "9"]]


def test_a_space_behind_some_delimiters_belongs_to_the_cell(table):
    assert all_rows(table(b"image,text\na.jpg, a dog\nb.jpg,two\n"))[0] == {"image": "a.jpg", "text": " a dog"}


def test_an_empty_file_is_refused(table):
    with refuses("empty_file", "input"):
        table(b"")


def test_column_names_that_occur_twice_are_refused(table):
    with refuses("duplicate_column", "input", says=["'image'", "image, label, image"]):
        table(b"image,label,image\n")


@pytest.mark.parametrize(
    ("header", "settings"),
    [
        (b'image,"label\n', ["input"]),
        (b"image,l\0bel\n", ["input"]),
        ("é,im".encode() + b"\xe9ge\n", ["input", "encoding"]),
    ],
)
def test_a_damaged_header_is_refused(table, header, settings):
    with refuses("invalid_file", *settings):
        table(header)


@pytest.mark.parametrize(
    ("bad", "detail"),
    [
        (b"1", "1 cells; expected 2"),
        (b"1,2,3", "3 cells; expected 2"),
        (b"1,a\0b", "a NUL byte"),
        (b"\0", "a NUL byte"),
        (b"1,caf\xe9\n" + "3,é".encode(), "not valid UTF-8"),
        (b'1,"two\nlines \xff"\n' + "3,é".encode(), "not valid UTF-8"),
        (b'"1"x,2', "expected after"),
        (b"1," + b"x" * MOST_ROW_SIZE, "a row of more than 4,194,304 characters"),
        (b'1,"' + (b"x" * 1000 + b"\n") * (MOST_ROW_SIZE // 1000), "a row of more than 4,194,304 characters"),
        (b'1,"' + b"x\n" * 10_000, "a row of more than 10,000 lines"),
    ],
)
def test_a_damaged_row_is_invalid_and_the_rows_around_it_are_read(table, bad, detail):
    rows = all_rows(table(b"x,y\na,b\n" + bad + b"\nc,d\n"))
    assert rows[0] == {"x": "a", "y": "b"}
    assert isinstance(rows[1], InvalidRow)
    assert rows[1].detail.startswith("line 3: ")
    assert detail in rows[1].detail
    assert rows[-1] == {"x": "c", "y": "d"}


def test_a_quote_that_is_never_closed_makes_its_line_an_invalid_row(table):
    rows = all_rows(table(b'x,y\na,"b\nc,d\ne,f\n'))
    assert rows == [InvalidRow("line 2: a quote is opened and not closed"), {"x": "c", "y": "d"}, {"x": "e", "y": "f"}]


def test_a_field_of_the_largest_size_is_read(table):
    (row,) = all_rows(table(b"x\n" + b"y" * (MOST_ROW_SIZE - 1) + b"\n"))
    assert len(row["x"]) == MOST_ROW_SIZE - 1


def test_a_field_of_ten_megabytes_is_invalid_in_bounded_memory(table):
    opened = table(b"x,y\n1," + b"z" * 10_000_000 + b"\n2,3\n")
    tracemalloc.start()
    rows = all_rows(opened)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(rows[0], InvalidRow)
    assert rows[1:] == [{"x": "2", "y": "3"}]
    assert peak < 64_000_000


# A lone surrogate cannot be written as UTF-8, and Python 3.10's csv module writes no NUL.
CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["", '"', ",", "\r\n", "\n", '""', '"a"', " ", "\ufeff"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1)),
    # With "\n" as its terminator csv.writer leaves a "\r" in a cell unquoted, which nobody can read back.
    style=st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]),
    bom=st.booleans(),
)
def test_what_csv_writer_writes_is_read_back(table, rows, style, bom):
    header = [f"column {number}" for number in range(len(rows[0]))]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=style[0], quoting=style[1]).writerows([header, *rows])
    data = text.getvalue().encode("utf-8-sig" if bom else "utf-8")
    assert [list(row.values()) for row in all_rows(table(data))] == rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b"\xff", b"a", b"\xc3\xa9"])).map(b"".join))
def test_any_bytes_give_rows_or_invalid_rows_and_nothing_else(table, data):
    for row in all_rows(table(b"x,y\n" + data)):
        assert isinstance(row, InvalidRow) or list(row) == ["x", "y"]
