"""ConvertBlocks and CollectFiles: convert the references of blocks to results, and collect their small files."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsSingleton

from beam_tfrecords import storage
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_block import convert_block
from beam_tfrecords.transforms.blocks.results import BlockResult, ListKey, find_files, join_files, take_file
from beam_tfrecords.transforms.parts import RANGE_BLOCKS
from beam_tfrecords.transforms.processes.stage import MapInProcesses
from beam_tfrecords.transforms.refs.sample_refs import BlockKey
from beam_tfrecords.transforms.stats import Stats

NAMESPACE = "beam_tfrecords"


class ConvertBlocks(beam.PTransform):
    """Converts and writes blocks: ((split, block), [references joined by `AssignOrder`]) -> BlockResult.

    Reads the result of a finished block from its checkpoint if the checkpoint and its files are intact. Converts a
    block that an earlier attempt did not finish in a child process, because a decoder may have crashed. All attempts at
    one block write the same bytes.

    Args:
      plan: the plan of all blocks, or a side input with it.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, plan: BlockPlan | AsSingleton, *, processes: int) -> None:
        super().__init__()
        # When a task dies, a cluster restarts all tasks that exchange data with it, and gives up after a few restarts.
        convert = functools.partial(convert_block, isolates_later=not processes)
        self._convert = MapInProcesses(convert, processes=processes, plan=plan)

    def expand(self, blocks: beam.PCollection[tuple[BlockKey, Iterable[bytes]]]) -> beam.PCollection[BlockResult]:
        return blocks | "ReadConvertWrite" >> self._convert | "CountSamples" >> beam.Map(_report)


class CollectFiles(beam.PTransform):
    """Collects the lists of failures and of changes: BlockResult -> (kind, file).

    One process reads all lists when the dataset is published. For very many blocks, the files of each range are joined
    first, because a million sequential requests take a day.

    Args:
      folder: the build's folder for temporary files, or a side input with it.
      blocks: number of blocks; None if it is unknown.
    """

    def __init__(self, *, folder: str | AsSingleton, blocks: int | None) -> None:
        super().__init__()
        self._folder = folder
        self._joins = blocks is None or blocks > RANGE_BLOCKS

    def expand(self, results: beam.PCollection[BlockResult]) -> beam.PCollection[tuple[str, str]]:
        # -> ((kind, split, range), file). Both kinds share one output, because each one costs network buffers on Flink.
        found = results | "FindFiles" >> beam.FlatMap(find_files).with_output_types(tuple[ListKey, str])
        if not self._joins:
            return found | "TakeFile" >> beam.Map(take_file)
        return (
            found
            | "GroupRanges" >> beam.GroupByKey()
            | "JoinFiles" >> beam.Map(storage.with_storage_options(join_files), folder=self._folder)
        )


def _report(result: BlockResult) -> BlockResult:
    """Reports a block from the runner's own worker, because only this process can update the pipeline's metrics."""
    report_block(result.stats, bytes_out=sum(part.bytes for part in result.parts), is_resumed=result.is_resumed)
    return result


def report_block(stats: Stats, *, bytes_out: int, is_resumed: bool) -> None:
    """Adds a block to the metrics of the pipeline; `is_resumed` says that an earlier attempt converted it."""

    def count(name: str, value: int) -> None:
        if value:
            Metrics.counter(NAMESPACE, name).inc(value)

    count("samples_written", stats.total("written"))
    for reason, samples in stats.failure_reasons().items():
        count(f"failed_{reason}", samples)
    count("bytes_in", stats.total("source_bytes"))
    count("bytes_out", bytes_out)
    count("blocks", 1)
    count("blocks_resumed", int(is_resumed))
