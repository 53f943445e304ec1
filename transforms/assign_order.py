"""AssignOrder: every ref gets its block, as the key of a pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import apache_beam as beam

from transforms.hashing import order_hash
from transforms.ordering import find_block
from transforms.values import SampleRef


class AssignOrder(beam.PTransform):
    """Gives every packed ref its block: packed ref -> ((split, block), packed ref).

    Args:
      seed: of the order.
      blocks: split -> number of blocks.
    """

    def __init__(self, *, seed: int, blocks: Mapping[str, int]) -> None:
        super().__init__()
        self._seed = seed
        self._blocks = dict(blocks)

    def expand(self, packed: beam.PCollection[bytes]) -> beam.PCollection[tuple[tuple[str, int], bytes]]:
        """Adds the keying step."""
        return packed | "HashKeys" >> beam.FlatMap(assign_block, seed=self._seed, blocks=self._blocks)


def assign_block(packed: bytes, *, seed: int, blocks: Mapping[str, int]) -> Iterator[tuple[tuple[str, int], bytes]]:
    """The block of one packed ref, as the key of a pair."""
    ref = SampleRef.unpack(packed)
    split = ref.split or ""
    order = order_hash(seed=seed, key=ref.key)
    yield (split, find_block(order=order, blocks=blocks[split])), packed
