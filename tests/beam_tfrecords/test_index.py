"""Indices are read in batches of rows; the CRCs that rows are sealed with are found in whole columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.dataset.index import INDEX_SCHEMA, pack_hash_and_crc, read_batches, read_columns, sealed_crcs


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
