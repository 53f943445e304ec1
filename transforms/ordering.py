"""Split, order and block of every sample: functions of its key and the spec alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import apache_beam as beam

from transforms.hashing import SPACE, order_hash
from transforms.values import SampleRef

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


def sort_refs(refs: list[SampleRef], *, seed: int) -> list[SampleRef]:
    """The refs of a block in their final order; equal keys stay next to each other, in an order of their own."""
    return sorted(refs, key=lambda ref: (order_hash(seed=seed, key=ref.key), ref.key, ref.pack()))


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
