"""Blocks and order: from the keys and the spec alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transforms.assign_order import assign_block
from transforms.hashing import SPACE, order_hash
from transforms.ordering import BLOCK_BYTES, count_blocks, find_block, sort_refs
from transforms.values import SampleRef

ORDERS = st.integers(0, SPACE - 1)
BLOCKS = st.integers(1, 10**9)


def test_a_block_is_about_sixteen_mebibytes():
    assert count_blocks(samples=10**6, output_bytes=1000 * BLOCK_BYTES) == 1000


def test_a_small_dataset_has_up_to_64_blocks_of_at_least_16_samples():
    assert count_blocks(samples=10**4, output_bytes=1) == 64
    assert count_blocks(samples=48, output_bytes=1) == 3
    assert count_blocks(samples=3, output_bytes=1) == 1


@given(ORDERS, BLOCKS)
def test_every_order_has_a_block(order, blocks):
    assert 0 <= find_block(order=order, blocks=blocks) < blocks


@given(ORDERS, ORDERS, BLOCKS)
def test_blocks_are_consecutive_ranges_of_the_order(one, other, blocks):
    low, high = sorted((one, other))
    assert find_block(order=low, blocks=blocks) <= find_block(order=high, blocks=blocks)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True), st.randoms())
def test_the_order_does_not_depend_on_how_the_refs_arrive(keys, random):
    refs = [SampleRef(key, None) for key in keys]
    shuffled = random.sample(refs, len(refs))
    assert sort_refs(shuffled, seed=3) == sort_refs(refs, seed=3)


def test_blocks_joined_in_order_are_the_globally_sorted_dataset():
    refs = [SampleRef(f"{number}.jpg", None, split="train") for number in range(500)]
    blocks: dict[tuple[str, int], list[SampleRef]] = {}
    for ref in refs:
        blocks.setdefault(assign_block(ref.pack(), seed=1, blocks={"train": 7}), []).append(ref)
    joined = [ref.key for key in sorted(blocks) for ref in sort_refs(blocks[key], seed=1)]
    assert joined == sorted((ref.key for ref in refs), key=lambda key: order_hash(seed=1, key=key))
