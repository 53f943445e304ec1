"""The list of very many shards: the rows that were written are those that are read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.shard_list import read_rows, write_rows

shards = st.builds(
    Shard,
    split=st.sampled_from(["a", "b"]),
    number=st.integers(0, 1 << 40),
    of=st.integers(0, 1 << 40),
    file=st.text("abc-é", min_size=1),
    records=st.integers(0, 1 << 40),
    bytes=st.integers(0, 1 << 60),
    crc32c=st.text("0123456789abcdef", min_size=8, max_size=8),
    index=st.text("abc-é", min_size=1).map(lambda name: f"index/{name}.parquet"),
    index_sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    first_key=st.none() | st.text(),
    index_bytes=st.integers(0, 1 << 60),
)


@given(many=st.lists(shards, min_size=1, max_size=40))
def test_rows_are_the_shards_that_were_written(many):
    content = write_rows(many)
    assert content == write_rows(many)
    assert read_rows(content) == many
