"""AssignOrder: every reference gets its block; order and block depend on its key and the spec alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.hashing import SPACE, order_hash
from transforms.refs import BlockKey, pack_refs, unpack_key_and_split

BLOCK_BYTES = 16 << 20
# A small dataset still gets enough blocks for every core.
SMALL_BLOCKS = 64
SMALL_BLOCK_SAMPLES = 16
# A worker holds up to this many references, some hundred bytes each, so that those of one block travel together.
_HELD_REFS = 100_000


class AssignOrder(beam.PTransform):
    """Gives every packed reference its block: packed reference -> ((split, block), references joined by `pack_refs`).

    Joined and compressed, references take a third of the room in the shuffle, which the local runner holds in
    memory.

    Args:
      seed: of the order.
      blocks: split -> number of blocks.
    """

    def __init__(self, *, seed: int, blocks: Mapping[str, int]) -> None:
        super().__init__()
        self._seed = seed
        self._blocks = dict(blocks)

    def expand(self, packed: beam.PCollection[bytes]) -> beam.PCollection[tuple[BlockKey, bytes]]:
        return packed | "HashKeys" >> beam.ParDo(_CollectBlocks(self._seed, self._blocks)).with_output_types(
            tuple[tuple[str, int], bytes]
        )


class _CollectBlocks(beam.DoFn):
    """Collects the references of a bundle by block."""

    def __init__(self, seed: int, blocks: Mapping[str, int]) -> None:
        self._seed = seed
        self._blocks = blocks

    def start_bundle(self) -> None:
        self._held = 0
        self._refs: defaultdict[BlockKey, list[bytes]] = defaultdict(list)

    def process(self, packed: bytes) -> Iterator[tuple[BlockKey, bytes]]:
        self._refs[assign_block(packed, seed=self._seed, blocks=self._blocks)].append(packed)
        self._held += 1
        if self._held == _HELD_REFS:
            yield from self._emit()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for pair in self._emit():
            yield GlobalWindows.windowed_value(pair)

    def _emit(self) -> Iterator[tuple[BlockKey, bytes]]:
        for key, refs in self._refs.items():
            yield key, pack_refs(refs)
        self.start_bundle()


def count_blocks(*, samples: int, output_bytes: int) -> int:
    """The number of blocks of a split, from its listing alone, never from the number of workers.

    Args:
      samples: samples listed.
      output_bytes: estimate of the bytes of their records.
    """
    return max(1, -(-output_bytes // BLOCK_BYTES), min(SMALL_BLOCKS, samples // SMALL_BLOCK_SAMPLES))


def find_block(*, order: int, blocks: int) -> int:
    """The block whose range of the hash space holds `order`."""
    return order * blocks // SPACE


def assign_block(packed: bytes, *, seed: int, blocks: Mapping[str, int]) -> BlockKey:
    """The block of one packed reference."""
    key, split = unpack_key_and_split(packed)
    return split, find_block(order=order_hash(seed=seed, key=key), blocks=blocks[split])
