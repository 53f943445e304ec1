"""Order and block of every sample: functions of its key and the spec alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from transforms.hashing import SPACE, order_hash
from transforms.values import SampleRef, unpack_place

# (split, block)
BlockKey: TypeAlias = "tuple[str, int]"

BLOCK_BYTES = 16 << 20
# A small dataset still gets blocks enough for every core to share in.
SMALL_BLOCKS = 64
SMALL_BLOCK_SAMPLES = 16


def count_blocks(*, samples: int, output_bytes: int) -> int:
    """The number of blocks of a split, from its listing alone, never from the number of workers.

    Args:
      samples: samples listed.
      output_bytes: estimate of what they will take in the output.
    """
    return max(1, -(-output_bytes // BLOCK_BYTES), min(SMALL_BLOCKS, samples // SMALL_BLOCK_SAMPLES))


def find_block(*, order: int, blocks: int) -> int:
    """The block whose range of the hash space holds `order`."""
    return order * blocks // SPACE


def assign_block(packed: bytes, *, seed: int, blocks: Mapping[str, int]) -> BlockKey:
    """The block of one packed ref."""
    key, word = unpack_place(packed)
    split = word or ""
    return split, find_block(order=order_hash(seed=seed, key=key), blocks=blocks[split])


def sort_refs(refs: list[SampleRef], *, seed: int) -> list[SampleRef]:
    """The refs of a block in their final order; equal keys stay next to each other, in an order of their own."""
    return sorted(refs, key=lambda ref: (order_hash(seed=seed, key=ref.key), ref.key, ref.pack()))
