"""The parts of an upload that joins sources."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.storage.upload_plan import MIN_BYTES, plan_upload

MIB = 1 << 20
SIZES = st.one_of(
    st.integers(0, 3),
    st.integers(0, 20 * MIB),
    st.sampled_from([MIN_BYTES - 1, MIN_BYTES, MIN_BYTES + 1, 1 << 30, (1 << 30) + 1, (3 << 30) + MIB]),
)


@given(st.lists(SIZES, max_size=12))
def test_parts_have_every_byte_once_in_order_and_are_large_enough(sizes):
    parts = plan_upload(sizes)
    found: list[tuple[int, int]] = []
    for piece in (piece for part in parts for piece in part):
        assert piece.length > 0
        if found and found[-1][0] == piece.source:
            assert piece.offset == found[-1][1]
        else:
            assert piece.offset == 0
        found.append((piece.source, piece.offset + piece.length))
    assert [source for source, _ in found] == sorted(source for source, _ in found)
    assert dict(found) == {index: size for index, size in enumerate(sizes) if size}
    lengths = [sum(piece.length for piece in part) for part in parts]
    assert all(length >= MIN_BYTES for length in lengths[:-1])
    assert all(length <= 1 << 30 for length in lengths)


@given(st.lists(SIZES, max_size=12))
def test_what_goes_through_memory_is_little(sizes):
    for part in plan_upload(sizes):
        length = sum(piece.length for piece in part)
        assert length <= MIN_BYTES or len(part) == 1


def test_large_sources_are_copied_but_for_what_fills_the_part_before():
    assert plan_upload([6 * MIB, 7 * MIB]) == [[(0, 0, 6 * MIB)], [(1, 0, 7 * MIB)]]
    assert plan_upload([2 * MIB, 20 * MIB, MIB]) == [
        [(0, 0, 2 * MIB), (1, 0, 3 * MIB)],
        [(1, 3 * MIB, 17 * MIB)],
        [(2, 0, MIB)],
    ]
    assert plan_upload([]) == plan_upload([0, 0]) == []
