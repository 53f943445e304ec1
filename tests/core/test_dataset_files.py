"""The files of a dataset: its index, the list of its shards, and the names of its classes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.dataset.index import INDEX_SCHEMA, pack_hash_and_crc, read_batches, read_columns, sealed_crcs
from beam_tfrecords.dataset.label_files import label_map, read_label_map
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.shard_list import read_rows, write_rows
from beam_tfrecords.features.layouts import parse_layout

# Indices.


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20), st.lists(st.sampled_from(["é", "a" * 40]), max_size=5))
def test_the_seals_of_a_column_are_those_of_its_rows(crcs, before):
    texts = [*before, *(pack_hash_and_crc("a" * 32, crc) for crc in crcs)]
    assert sealed_crcs(pa.array(texts, pa.string())[len(before) :]).tolist() == crcs


@pytest.mark.parametrize(
    "text", [None, "", "a" * 32, "a" * 32 + "0", "a" * 32 + "0123456g", "a" * 32 + "012345 7", "a" * 41]
)
def test_what_is_no_seal_is_damage(text):
    with pytest.raises(ValueError, match=r"."):
        sealed_crcs(pa.array([text, pack_hash_and_crc("a" * 32, 1)]))


def test_batches_are_the_whole_index(tmp_path):
    count = 40_000
    texts = {name: [""] * count for name in ("fingerprint", "content_hash", "sample_hash")}
    columns = {"key": [f"{number}" for number in range(count)], **texts}
    columns |= {
        "offset": np.arange(count),
        "length": np.ones(count, np.int64),
        **dict.fromkeys(("uri", "label", "height"), [None] * count),
    }
    schema = pa.schema([field for field in INDEX_SCHEMA if field.name in columns])
    pq.write_table(pa.table(columns, schema), tmp_path / "index.parquet")
    data = (tmp_path / "index.parquet").read_bytes()
    for names in ([], ["key", "height", "phash"]):
        batches = list(read_batches(data, names))
        assert pa.Table.from_batches(batches).equals(read_columns(data, names))
        assert max(batch.num_rows for batch in batches) < count
    with pytest.raises(pa.ArrowInvalid, match="the index is damaged"):
        list(read_batches(data[: len(data) // 2]))


# The list of very many shards.


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


# Files of class names.


NAMES = ["cat", 'a "b" {c}', "été's", "back\\slash", "1"]


def test_a_label_map_of_ours_is_read_back():
    (data,) = label_map(parse_layout("detection"), NAMES).values()
    assert read_label_map(data) == NAMES


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("item {\n  name: 'n02'\n  id: 2\n  display_name: 'dog'\n}\nitem { id: 1 name: 'cat' }", ["cat", "dog"]),
        # COCO's ids have gaps, which stay.
        ("item { id: 1 name: 'cat' } item { id: 3 name: 'dog' }", ["cat", "category_2", "dog"]),
        ("item { id: 0 name: 'background' } item { id: 1 name: 'dog' }", ["dog"]),
        ("nothing", []),
        ("", []),
    ],
)
def test_maps_of_others(text, names):
    assert read_label_map(text.encode()) == names
