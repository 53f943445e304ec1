"""AssignOrder: every reference gets its block; order and block depend on its key and the spec alone."""

from __future__ import annotations

from collections.abc import Mapping

from transforms.hashing import SPACE, order_hash
from transforms.refs import BlockKey, unpack_key_and_split

BLOCK_BYTES = 16 << 20
# A small dataset still gets enough blocks for every core.
SMALL_BLOCKS = 64
SMALL_BLOCK_SAMPLES = 16


def count_blocks(*, samples: int, output_bytes: int) -> int:
    """The number of blocks of a split, from its listing alone, never from the number of workers."""
    return max(1, -(-output_bytes // BLOCK_BYTES), min(SMALL_BLOCKS, samples // SMALL_BLOCK_SAMPLES))


def find_block(*, order: int, blocks: int) -> int:
    """The block whose range of the hash space holds `order`."""
    return order * blocks // SPACE


def assign_block(packed: bytes, *, seed: int, blocks: Mapping[str, int]) -> BlockKey:
    """The block of one packed reference."""
    key, split = unpack_key_and_split(packed)
    return split, find_block(order=order_hash(seed=seed, key=key), blocks=blocks[split])
