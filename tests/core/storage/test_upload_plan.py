"""The parts of an upload to S3 that joins sources."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.storage import FileRange
from beam_tfrecords.storage.upload_plan import MIN_BYTES, plan_upload

MIB = 1 << 20
MOST = 1 << 30
SIZES = st.one_of(
    st.integers(0, 3),
    st.integers(0, 20 * MIB),
    st.sampled_from([MIN_BYTES - 1, MIN_BYTES, MIN_BYTES + 1, MOST, MOST + 1, 3 * MOST + MIB]),
)
RANGES = st.lists(st.tuples(st.integers(0, 100), SIZES), max_size=12).map(
    lambda places: [FileRange(str(number), *place) for number, place in enumerate(places)]
)


@given(RANGES)
def test_parts_have_every_byte_once_in_order_and_are_large_enough(ranges):
    parts = plan_upload(ranges)
    joined: list[FileRange] = []
    for piece in (piece for part in parts for piece in part):
        assert piece.length > 0
        if joined and joined[-1].path == piece.path:
            path, offset, length = joined.pop()
            assert piece.offset == offset + length
            joined.append(FileRange(path, offset, length + piece.length))
        else:
            joined.append(piece)
    assert joined == [one for one in ranges if one.length]
    lengths = [sum(piece.length for piece in part) for part in parts]
    assert all(length >= MIN_BYTES for length in lengths[:-1])
    assert all(length <= MOST for length in lengths)


@given(RANGES)
def test_what_goes_through_memory_is_little(ranges):
    for part in plan_upload(ranges):
        assert sum(piece.length for piece in part) <= MIN_BYTES or len(part) == 1


def test_large_sources_are_copied_but_for_what_fills_the_part_before():
    def plan(*sizes: int) -> list[list[tuple[str, int, int]]]:
        return [list(map(tuple, part)) for part in plan_upload([FileRange(str(n), 0, s) for n, s in enumerate(sizes)])]

    assert plan(6 * MIB, 7 * MIB) == [[("0", 0, 6 * MIB)], [("1", 0, 7 * MIB)]]
    assert plan(2 * MIB, 20 * MIB, MIB) == [
        [("0", 0, 2 * MIB), ("1", 0, 3 * MIB)],
        [("1", 3 * MIB, 17 * MIB)],
        [("2", 0, MIB)],
    ]
    assert plan() == plan(0, 0) == []
