"""A stray quote in a csv file damages its own line, and swallows none of the rows after it."""

from __future__ import annotations

import pytest

from beam_tfrecords.transforms.sources.tables.csv_table import open_csv
from beam_tfrecords.transforms.sources.tables.table import InvalidRow

ROWS = 300


@pytest.fixture
def read(tmp_path):
    """The rows of a table of images and captions whose lines are changed, by number."""

    def make(changed: dict[int, str], *, header: str = "image,caption", line: str = "{}.jpg,a cat"):
        lines = [changed.get(number, line.format(number)) for number in range(ROWS)]
        (tmp_path / "captions.csv").write_text("\n".join([header, *lines]) + "\n")
        table = open_csv(str(tmp_path / "captions.csv"))
        return list(table.rows(table.columns))

    return make


def check(rows, *, invalid):
    """Every line is a row, and those that are invalid say their own line."""
    assert len(rows) == ROWS
    found = [number for number, row in enumerate(rows) if isinstance(row, InvalidRow)]
    assert found == invalid
    for number in found:
        assert rows[number].detail.startswith(f"line {number + 2}: ")
    assert all(row["image"] == f"{number}.jpg" for number, row in enumerate(rows) if number not in invalid)


def test_a_quote_that_is_never_closed(read):
    rows = read({100: '100.jpg,"unclosed'})
    check(rows, invalid=[100])
    assert rows[100].detail == "line 102: a quote is opened and not closed"


def test_a_quote_that_a_quote_150_lines_below_closes(read):
    check(read({100: '100.jpg,"a cat', 250: '250.jpg,a cat"'}), invalid=[100])


def test_a_quote_that_the_next_line_closes(read):
    check(read({100: '100.jpg,"a cat', 101: '101.jpg,a cat"'}), invalid=[100])


def test_two_quotes_at_the_beginning_of_cells(read):
    check(read({100: '100.jpg,"a cat', 250: '250.jpg,"a cat'}), invalid=[100, 250])


def test_a_quote_before_rows_with_quoted_cells(read):
    check(read({100: '100.jpg,"a cat'}, line='"{}.jpg","a cat"'), invalid=[100])


def test_a_quote_in_the_first_cell(read):
    check(read({100: '"100.jpg,a cat'}), invalid=[100])


def test_a_quote_in_the_last_row(read):
    check(read({299: '299.jpg,"a cat'}), invalid=[299])


def test_a_quote_in_every_row(read):
    check(read({}, line='{}.jpg,"a cat'), invalid=list(range(ROWS)))


def test_text_after_a_closing_quote(read):
    check(read({100: '100.jpg,"a" cat'}), invalid=[100])


def test_a_quote_inside_a_cell_is_text(read):
    rows = read({100: '100.jpg,a 5" cat'})
    check(rows, invalid=[])
    assert rows[100]["caption"] == 'a 5" cat'


@pytest.mark.parametrize(
    "caption",
    ["a cat,\non a mat,\r\nasleep", "first line, of two\nsecond line, of two", "one\n" * 500, "\n\n\n", "a\nb,c\nd"],
)
def test_a_quoted_cell_of_several_lines_is_one_row(read, caption):
    rows = read({100: f'100.jpg,"{caption}"'})
    check(rows, invalid=[])
    assert rows[100]["caption"].splitlines() == caption.splitlines()
