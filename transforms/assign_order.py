"""AssignOrder: every ref gets its block, as the key of a pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.ordering import BlockKey, assign_block
from transforms.values import pack_refs

# A worker holds up to so many refs, some hundred bytes each, so that those of one block travel together.
_HELD_REFS = 100_000


class AssignOrder(beam.PTransform):
    """Gives every packed ref its block: packed ref -> ((split, block), several refs, packed together).

    Packed one by one, refs take three times as much room in the shuffle; the local runner has it in memory.

    Args:
      seed: of the order.
      blocks: split -> number of blocks.
    """

    def __init__(self, *, seed: int, blocks: Mapping[str, int]) -> None:
        super().__init__()
        self._seed = seed
        self._blocks = dict(blocks)

    def expand(self, packed: beam.PCollection[bytes]) -> beam.PCollection[tuple[BlockKey, bytes]]:
        """Adds the keying step."""
        return packed | "HashKeys" >> beam.ParDo(_CollectBlocks(self._seed, self._blocks)).with_output_types(
            tuple[tuple[str, int], bytes]
        )


class _CollectBlocks(beam.DoFn):
    """Collects the refs of a bundle by block."""

    def __init__(self, seed: int, blocks: Mapping[str, int]) -> None:
        self._seed = seed
        self._blocks = blocks

    def start_bundle(self) -> None:
        """Begins anew."""
        self._held = 0
        self._refs: dict[BlockKey, list[bytes]] = {}

    def process(self, packed: bytes) -> Iterator[tuple[BlockKey, bytes]]:
        """Takes one ref; emits all when they are many."""
        key = assign_block(packed, seed=self._seed, blocks=self._blocks)
        self._refs.setdefault(key, []).append(packed)
        self._held += 1
        if self._held == _HELD_REFS:
            yield from self._emit()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Emits the rest."""
        for pair in self._emit():
            yield GlobalWindows.windowed_value(pair)

    def _emit(self) -> Iterator[tuple[BlockKey, bytes]]:
        for key, refs in self._refs.items():
            yield key, pack_refs(refs)
        self.start_bundle()
