from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.column_ranges import expand_columns, range_ends
from tests.refusals import refuses

TABLE = ("path", "x0", "x1", "x2", "y", "left_eye", "nose", "right_eye", "p001", "p002", "p003")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("columns.x0..x2", ["x0", "x1", "x2"]),
        ("columns.x1..x1", ["x1"]),
        ("columns.left_eye..right_eye", ["left_eye", "nose", "right_eye"]),
        ("columns.x2..left_eye", ["x2", "y", "left_eye"]),
        ("columns.p001..p003", ["p001", "p002", "p003"]),
        ("columns.y, x0..x1", ["y", "x0", "x1"]),
        ("columns.nose,y", ["nose", "y"]),
    ],
)
def test_a_range_is_that_of_the_numbers_or_of_the_table(field, expected):
    assert list(expand_columns(field, TABLE, where="w")) == expected


@given(st.integers(0, 120), st.integers(1, 30), st.integers(0, 3), st.randoms())
def test_numbers_count_whatever_the_order_of_the_table(first, count, width, chance: random.Random):
    names = [f"x{number:0{width}d}" for number in range(first, first + count)]
    if {len(name) for name in names} != {len(names[0])} and names[0][1] == "0" and len(names[0]) > 2:
        return
    table = chance.sample(names, len(names))
    assert list(expand_columns(f"columns.{names[0]}..{names[-1]}", table, where="w")) == names
    assert list(expand_columns(f"columns.{names[0]}..{names[-1]}", (), where="w")) == names


@pytest.mark.parametrize(
    ("field", "code", "says"),
    [
        ("columns.x0..x3", "unknown_column", "'x3'"),
        ("columns.x0..z", "invalid_layout", "'z'"),
        ("columns.x2..x0", "invalid_layout", "before"),
        ("columns.right_eye..left_eye", "invalid_layout", "before"),
        ("columns.x0,x0..x2", "invalid_layout", "'x0' twice"),
        ("columns.x,y", "unknown_column", "'x'"),
    ],
)
def test_a_range_without_an_end_is_refused(field, code, says):
    with pytest.raises(RequestError) as refused:
        expand_columns(field, TABLE, where="w")
    assert refused.value.code == code
    assert says in str(refused.value)


def test_columns_between_the_numbers_make_a_range_unclear():
    table = ["x0", "y0", "x1", "y1", "x2", "y2"]
    with refuses("unclear_columns", "layout", says=["the 3 columns", "all 5", "y0, y1", "columns.x0,y0,…"]):
        expand_columns("columns.x0..x2", table, where="`layout`: feature 'points': columns.x0..x2")
    assert expand_columns("columns.x0..y2", table, where="w") == tuple(table)


def test_the_ends_of_a_range_are_known_without_the_table():
    assert range_ends("columns.x0..x135,y") == ("x0", "x135", "y")
    assert range_ends("columns.x0..") == ("x0", "")
