"""AssignOrder: every reference gets its block; order and block depend on its key and the spec alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from transforms.hashing import SPACE, order_hashes
from transforms.listing.listing import read_chunk
from transforms.refs import BlockKey, unpack_key_and_split

BLOCK_BYTES = 16 << 20
# A small dataset still gets enough blocks for every core: first a few of few samples, then, as a block takes six
# requests to a store, as many of more samples or bytes.
MOST_SMALL_BLOCKS = 64
SMALL_BLOCKS = ((16, 16), (128, MOST_SMALL_BLOCKS))  # (samples of a block, most blocks)


def count_blocks(*, samples: int, output_bytes: int, source_bytes: int) -> int:
    """The number of blocks of a split, from its listing alone, never from the number of workers.

    Args:
      output_bytes: estimate of the bytes of their records.
      source_bytes: of their images, as far as they are known.
    """
    by_samples = max(min(most, samples // each) for each, most in SMALL_BLOCKS)
    by_source = min(MOST_SMALL_BLOCKS, source_bytes // BLOCK_BYTES)
    return max(1, -(-output_bytes // BLOCK_BYTES), by_samples, by_source)


def find_block(*, order: int, blocks: int) -> int:
    """The block whose range of the hash space holds `order`."""
    return order * blocks // SPACE


def assign_blocks(packed: Iterable[bytes], *, seed: int, blocks: Mapping[str, int]) -> Iterator[BlockKey]:
    """The blocks of packed references."""
    named = list(map(unpack_key_and_split, packed))
    orders = order_hashes(seed=seed, keys=(key for key, _ in named))
    for order, (_, split) in zip(orders, named, strict=True):
        yield split, find_block(order=order, blocks=blocks[split])


def order_chunk(chunk: str, *, seed: int, blocks: Mapping[str, int]) -> list[tuple[BlockKey, int, bytes]]:
    """The packed references of a chunk file by their blocks: (block, how many they are, one behind the other).

    Raises:
      BuildError: as `read_chunk`.
    """
    packed = read_chunk(chunk)
    refs: defaultdict[BlockKey, list[bytes]] = defaultdict(list)
    for block, ref in zip(assign_blocks(packed, seed=seed, blocks=blocks), packed, strict=True):
        refs[block].append(ref)
    return [(block, len(found), b"".join(found)) for block, found in refs.items()]
