"""Assigns every reference its block. Order and block depend only on the key and the request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.listing.decisions import Decisions
from beam_tfrecords.transforms.listing.listing import read_chunk
from beam_tfrecords.transforms.parts import GROUP_BYTES
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import BlockKey

BLOCK_BYTES = 16 << 20
# Small datasets get enough blocks to keep the cores busy, but not more, because a block costs five requests to a store.
# A block of these samples or bytes takes about a second. The limits apply to all splits together.
MOST_SMALL_BLOCKS = 64
SMALL_SOURCE_BYTES = 32 << 20
SMALL_BLOCKS = ((16, 3), (64, 8), (256, MOST_SMALL_BLOCKS))  # (samples of a block, most blocks)
MAPPED_BLOCKS = ((16, MOST_SMALL_BLOCKS),)
# Bounds the input of a block when large images become small ones, since a block whose worker dies is repeated.
SOURCE_BYTES = 1 << 30


def count_blocks(
    *,
    samples: int,
    output_bytes: int,
    ref_bytes: int = 0,
    of_samples: int,
    source_bytes: int,
    is_mapped: bool = False,
) -> int:
    """Returns the number of blocks of a split. Depends only on the listing, not on the number of workers.

    Args:
      samples: number of samples in the split.
      output_bytes: estimated bytes of the records of the split.
      ref_bytes: bytes of the references of the split; the references of a block are one group of the shuffle.
      of_samples: number of samples in all splits.
      source_bytes: known bytes of the images of all splits.
      is_mapped: whether a user's function is applied, whose run time is unknown.
    """
    by_samples = max(min(most, of_samples // each) for each, most in (MAPPED_BLOCKS if is_mapped else SMALL_BLOCKS))
    by_source = max(min(MOST_SMALL_BLOCKS, source_bytes // SMALL_SOURCE_BYTES), source_bytes // SOURCE_BYTES)
    share = max(by_samples, by_source) * samples // of_samples
    return max(1, share, -(-output_bytes // BLOCK_BYTES), -(-ref_bytes // GROUP_BYTES))


def find_block(*, order: Any, blocks: int) -> Any:
    """Returns the number of the block whose hash range contains `order`, an integer or a uint64 array."""
    # order * blocks >> 64, computed with 64-bit numbers.
    return ((order >> 32) * blocks + ((order & 0xFFFFFFFF) * blocks >> 32)) >> 32


def assign_blocks(refs: RefColumns, *, seed: int, blocks: Mapping[str, int]) -> Iterator[tuple[BlockKey, list[int]]]:
    """Yields each block of a batch with the positions of its references."""
    orders = np.asarray(order_hashes(seed=seed, keys=refs.keys))
    splits = [split or "" for split in refs.each("split")]
    for split in dict.fromkeys(splits):
        places = np.flatnonzero([one == split for one in splits])
        numbers = find_block(order=orders[places], blocks=blocks[split])
        by_number = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[by_number])) + 1
        for of_block in np.split(by_number, starts):
            yield (split, int(numbers[of_block[0]])), places[of_block].tolist()


def order_chunk(
    chunk: str, *, seed: int, blocks: Mapping[str, int], decisions: Decisions
) -> list[tuple[BlockKey, int, bytes]]:
    """Reads a chunk file and groups its references by block: (block, number of references, packed references).

    Raises:
      BuildError: as `read_chunk`.
    """
    return [
        (block, len(places), refs.take(places).pack())
        for refs in read_chunk(chunk, decisions)
        for block, places in assign_blocks(refs, seed=seed, blocks=blocks)
    ]
