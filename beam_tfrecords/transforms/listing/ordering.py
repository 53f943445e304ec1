"""Assigns every reference its block. Order and block depend on its key and the request alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from beam_tfrecords.transforms.group_size import GROUP_BYTES
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.listing.listing import read_chunk
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import BlockKey

BLOCK_BYTES = 16 << 20
# A small dataset still gets enough blocks for the cores, but few: a block takes five requests to a store, and this many
# samples or bytes about a second. Its splits share them.
MOST_SMALL_BLOCKS = 64
SMALL_SOURCE_BYTES = 32 << 20
SMALL_BLOCKS = ((16, 3), (64, 8), (256, MOST_SMALL_BLOCKS))  # (samples of a block, most blocks)
MAPPED_BLOCKS = ((16, MOST_SMALL_BLOCKS),)
# Large images that become small ones: a lost worker repeats a block, so that it may not read for hours.
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
    """The number of blocks of a split, from the listing alone, never from the number of workers.

    Args:
      samples: of the split.
      output_bytes: estimate of the bytes of their records.
      ref_bytes: of their references; those of a block are a group.
      of_samples: of all splits.
      source_bytes: of the images of all splits, as far as they are known.
      is_mapped: whether a function of the user is applied, which may take any time.
    """
    by_samples = max(min(most, of_samples // each) for each, most in (MAPPED_BLOCKS if is_mapped else SMALL_BLOCKS))
    by_source = max(min(MOST_SMALL_BLOCKS, source_bytes // SMALL_SOURCE_BYTES), source_bytes // SOURCE_BYTES)
    share = max(by_samples, by_source) * samples // of_samples
    return max(1, share, -(-output_bytes // BLOCK_BYTES), -(-ref_bytes // GROUP_BYTES))


def find_block(*, order: Any, blocks: int) -> Any:
    """The block whose range of the hash space holds `order`: an integer, or a uint64 array."""
    # order * blocks >> 64, without a number of more than 64 bits.
    return ((order >> 32) * blocks + ((order & 0xFFFFFFFF) * blocks >> 32)) >> 32


def assign_blocks(refs: RefColumns, *, seed: int, blocks: Mapping[str, int]) -> Iterator[tuple[BlockKey, list[int]]]:
    """The blocks of references, and the places of those of each."""
    orders = np.asarray(order_hashes(seed=seed, keys=refs.keys))
    splits = [split or "" for split in refs.each("split")]
    for split in dict.fromkeys(splits):
        places = np.flatnonzero([one == split for one in splits])
        numbers = find_block(order=orders[places], blocks=blocks[split])
        by_number = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[by_number])) + 1
        for of_block in np.split(by_number, starts):
            yield (split, int(numbers[of_block[0]])), places[of_block].tolist()


def order_chunk(chunk: str, *, seed: int, blocks: Mapping[str, int]) -> list[tuple[BlockKey, int, bytes]]:
    """The references of a chunk file by their blocks: (block, how many they are, packed).

    Raises:
      BuildError: as `read_chunk`.
    """
    return [
        (block, len(places), refs.take(places).pack())
        for refs in read_chunk(chunk)
        for block, places in assign_blocks(refs, seed=seed, blocks=blocks)
    ]
