"""ConvertBlocks: grouped refs in, finished blocks out."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable

import apache_beam as beam

from transforms.blocks import BlockPlan, BlockResult, convert_block
from transforms.isolation import Convert
from transforms.map_in_processes import MapInProcesses
from transforms.ordering import BlockKey


class ConvertBlocks(beam.PTransform):
    """Converts and writes blocks: ((split, block), refs as `AssignOrder` packs them) -> BlockResult.

    A block that has a marker is taken from it; one that was begun and not finished, perhaps because its
    decoder crashed, is converted in a process of its own. All attempts at one block write the same bytes.

    Args:
      plan: what the workers need to know.
      convert: from a ref and its image's bytes (None for a row without an image) to a sample; raises
        `SampleError` to refuse it.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, plan: BlockPlan, convert: Convert, *, processes: int) -> None:
        super().__init__()
        self._plan = plan
        self._convert = convert
        self._processes = processes

    def expand(self, blocks: beam.PCollection[tuple[BlockKey, Iterable[bytes]]]) -> beam.PCollection[BlockResult]:
        """Adds the converting step."""
        function = functools.partial(convert_block, plan=self._plan, convert=self._convert)
        # A block's call is named by its key: the first ones are begun before there is a pipeline.
        return blocks | "ReadConvertWrite" >> MapInProcesses(
            function, processes=self._processes, name=operator.itemgetter(0)
        )
