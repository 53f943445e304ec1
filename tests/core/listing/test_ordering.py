"""Blocks and order: they depend on the keys and the spec alone."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.blocks.rows import read_block
from beam_tfrecords.transforms.hashing import SPACE, order_hashes
from beam_tfrecords.transforms.listing import stage as ordering
from beam_tfrecords.transforms.listing.decisions import UNDECIDED
from beam_tfrecords.transforms.listing.ordering import BLOCK_BYTES, assign_blocks, count_blocks, find_block
from beam_tfrecords.transforms.listing.stage import AssignOrder
from beam_tfrecords.transforms.parts import GROUP_BYTES
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from tests.core.converting import pack_refs
from tests.each import each

ORDERS = st.integers(0, SPACE - 1)
BLOCKS = st.integers(1, 10**9)


def blocks_of(samples: int, **sizes: int) -> int:
    """The blocks of a split, which is the whole dataset unless `of_samples` says otherwise."""
    return count_blocks(**{"samples": samples, "of_samples": samples, "output_bytes": 1, "source_bytes": 0, **sizes})


def test_a_block_has_about_sixteen_mebibytes():
    assert blocks_of(10**6, output_bytes=1000 * BLOCK_BYTES) == 1000


@each("samples, blocks", [(3, 1), (48, 3), (200, 3), (512, 8), (2000, 8), (8000, 31), (2 * 10**4, 64), (10**6, 64)])
def test_a_small_dataset_has_blocks_for_every_core(samples, blocks):
    assert blocks_of(samples) == blocks


@pytest.mark.parametrize(("samples", "blocks"), [(3, 1), (200, 12), (2000, 64), (10**6, 64)])
def test_a_function_of_the_user_which_may_take_long_has_more_blocks(samples, blocks):
    assert blocks_of(samples, is_mapped=True) == blocks


def test_a_block_reads_about_a_gibibyte_at_most():
    scans = 100_000
    assert blocks_of(scans, output_bytes=1 << 30, source_bytes=scans * 50 * 10**6) == scans * 50 * 10**6 >> 30
    assert blocks_of(scans // 2, of_samples=scans, source_bytes=1000 << 30) == 500


@pytest.mark.parametrize("splits", [2, 10, 100])
def test_splits_share_the_blocks_of_a_small_dataset(splits):
    each = 20_000 // splits
    assert blocks_of(each, of_samples=20_000) == max(1, 64 // splits)
    assert blocks_of(each, of_samples=20_000, source_bytes=10**10) == max(1, 64 // splits)
    # The bytes of a block are bounded whatever the splits.
    assert blocks_of(each, of_samples=20_000, output_bytes=100 * BLOCK_BYTES) == 100


def test_large_sources_have_more_blocks():
    assert blocks_of(400, source_bytes=400 * 10**6) == 11
    assert blocks_of(400, source_bytes=10**10) == 64
    # No worker holds the references of more than one block.
    assert blocks_of(400, ref_bytes=100 * GROUP_BYTES) == 100


@given(ORDERS, BLOCKS)
def test_every_order_has_a_block(order, blocks):
    assert find_block(order=order, blocks=blocks) == order * blocks // SPACE
    assert find_block(order=np.uint64([order]), blocks=blocks) == [order * blocks // SPACE]


@given(ORDERS, ORDERS, BLOCKS)
def test_blocks_are_consecutive_ranges_of_the_order(one, other, blocks):
    low, high = sorted((one, other))
    assert find_block(order=low, blocks=blocks) <= find_block(order=high, blocks=blocks)


def test_blocks_joined_in_order_are_the_globally_sorted_dataset():
    refs = [SampleRef(f"{number}.jpg", {}, split="train") for number in range(500)]
    (together,) = RefColumns.of(refs)
    blocks = dict(assign_blocks(together, seed=1, blocks={"train": 7}))
    joined = [
        key
        for _, places in sorted(blocks.items())
        for found in read_block([pack_refs(together.take(places))], seed=1, decide=UNDECIDED.apply)
        for key in found.keys
    ]
    orders = order_hashes(seed=1, keys=together.keys)
    assert joined == [together.keys[place] for place in np.argsort(orders)]


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("held", [7, 100_000], ids=["emitted several times", "emitted at the end"])
def test_assign_order_gives_every_reference_its_block(tmp_path, monkeypatch, held, processes):
    monkeypatch.setattr(ordering, "_MOST_REFS", held)
    refs = [SampleRef(f"{number}.jpg", {}, split=("train", "test")[number % 2]) for number in range(50)]
    blocks = {"train": 3, "test": 2}

    def check(pairs):
        found = []
        for (split, block), joined in pairs:
            for together in read_block([joined], seed=5, decide=UNDECIDED.apply):
                ((assigned, places),) = assign_blocks(together, seed=5, blocks=blocks)
                assert (assigned, places) == ((split, block), [*range(len(together))])
                found += together
        assert sorted(found, key=str) == sorted(refs, key=str)

    chunks = [tmp_path / f"{start}.refs" for start in range(0, len(refs), 5)]
    for number, chunk in enumerate(chunks):
        chunk.write_bytes(pack_refs(refs[5 * number : 5 * number + 5]))
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        order = AssignOrder(seed=5, blocks=blocks, decisions=UNDECIDED, processes=processes)
        assert_that(pipeline | beam.Create(list(map(str, chunks))) | order, check)
