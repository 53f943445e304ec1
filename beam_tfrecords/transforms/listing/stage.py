"""IndexContainers, ListSamples, ListSource and AssignOrder: list the references of an input and assign their blocks."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import msgpack
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_tfrecords import storage
from beam_tfrecords.transforms.listing.decisions import Decisions
from beam_tfrecords.transforms.listing.indexing import (
    BundleListing,
    IndexPlan,
    index_partition,
    join_bundles,
    read_partitions,
)
from beam_tfrecords.transforms.listing.listing import read_chunk_names
from beam_tfrecords.transforms.listing.ordering import order_chunk
from beam_tfrecords.transforms.processes.stage import MapInProcesses
from beam_tfrecords.transforms.refs.ref_columns import join_packed
from beam_tfrecords.transforms.refs.sample_refs import BlockKey, SampleRef
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles
from beam_tfrecords.transforms.sources.tally import Tally

# Maximum number of references, and of their bytes, that a worker holds to send those of one block together.
_MOST_REFS = 100_000
_MOST_BYTES = 64 << 20


class IndexContainers(beam.PTransform):
    """Lists the partitions of a build: -> checkpoint files.

    Copies samples without random access to staging files.

    Args:
      plan: plan for the workers.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, plan: IndexPlan, *, processes: int) -> None:
        super().__init__()
        self._folder = plan.folder
        self._index = functools.partial(index_partition, plan=plan)
        self._processes = processes

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        return (
            begin
            | "Begin" >> beam.Impulse()
            | "Containers" >> beam.FlatMap(storage.with_storage_options(_partitions), self._folder)
            | "Spread" >> beam.Reshuffle()
            | "Index" >> MapInProcesses(self._index, processes=self._processes)
        )


class ListSamples(beam.PTransform):
    """Lists the samples that a user's pipeline makes: `Sample` -> the checkpoint file.

    Each bundle writes its own files and passes on only their names, never the bytes of images.

    Args:
      plan: plan for the workers, or a side input with it.
      partition: partition that represents the pipeline.
      read: as in `PipelinePartition`.
    """

    def __init__(
        self,
        plan: IndexPlan | AsSingleton,
        partition: Partition,
        read: Callable[[Any, StagingFiles, Tally], SampleRef],
    ) -> None:
        super().__init__()
        self._plan = plan
        self._partition = partition
        self._read = read

    def expand(self, samples: beam.PCollection[Any]) -> beam.PCollection[str]:
        nothing = samples.pipeline | "Begin" >> beam.Impulse() | "Nothing" >> beam.Map(_no_bundle)
        listed = samples | "List" >> beam.ParDo(_ListBundle(self._read), plan=self._plan)
        return (
            (listed, nothing)
            | "All" >> beam.Flatten()
            | "Together" >> beam.GroupByKey()
            | "WriteCheckpoint"
            >> beam.Map(storage.with_storage_options(_join), partition=self._partition, plan=self._plan)
        )


class ListSource(beam.PTransform):
    """Emits the chunk files of the listing of a build, spread over the workers: -> chunk file.

    A chunk of references is one element, because the runner's overhead per element is as large as the work on one
    reference.

    Args:
      folder: the build's folder for temporary files, or a side input with it.
      chunks: the chunk files, or a side input with them; () if `write_chunk_names` has written their names.
    """

    def __init__(self, folder: str | AsSingleton, chunks: Sequence[str] | AsSingleton = ()) -> None:
        super().__init__()
        self._named = {"folder": folder, "chunks": chunks}

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        return (
            begin
            | "Begin" >> beam.Impulse()
            | "Chunks" >> beam.FlatMap(storage.with_storage_options(_chunk_names), **self._named)
            | "Spread" >> beam.Reshuffle()
        )


class AssignOrder(beam.PTransform):
    """Gives every reference of a listing its block: chunk file -> ((split, block), references joined by `join_packed`).

    Joining and compressing reduces the references to a third of their size in the shuffle, which the local runner
    holds in memory.

    Args:
      seed: seed of the order.
      blocks: split -> number of blocks, or a side input with it.
      decisions: the decisions about the listing, or a side input with them.
      processes: as in `MapInProcesses`.
    """

    def __init__(
        self,
        *,
        seed: int,
        blocks: Mapping[str, int] | AsSingleton,
        decisions: Decisions | AsSingleton,
        processes: int,
    ) -> None:
        super().__init__()
        order = functools.partial(order_chunk, seed=seed)
        self._order = MapInProcesses(order, processes=processes, blocks=blocks, decisions=decisions)

    def expand(self, chunks: beam.PCollection[str]) -> beam.PCollection[tuple[BlockKey, bytes]]:
        return (
            chunks
            | "OrderChunks" >> self._order
            | "JoinRefs" >> beam.ParDo(_JoinRefs()).with_output_types(tuple[tuple[str, int], bytes])
        )


def _partitions(_: bytes, folder: str) -> Iterator[Partition]:
    return read_partitions(folder)


def _chunk_names(_: bytes, *, folder: str, chunks: Sequence[str]) -> Iterator[str]:
    return iter(chunks) if chunks else read_chunk_names(folder)


def _no_bundle(_: bytes) -> tuple[str, bytes]:
    return "", msgpack.packb(([], Tally().pack(), []))


def _join(grouped: tuple[str, Iterable[bytes]], *, partition: Partition, plan: IndexPlan) -> str:
    return join_bundles(grouped[1], partition=partition, plan=plan)


class _ListBundle(beam.DoFn):
    """Lists the samples of a bundle: `Sample` -> ("", packed bytes for `join_bundles`)."""

    def __init__(self, read: Callable[[Any, StagingFiles, Tally], SampleRef]) -> None:
        self._read = read
        self._options = storage.current_options()

    def setup(self) -> None:
        storage.set_options(self._options)

    def start_bundle(self) -> None:
        self._bundle: BundleListing | None = None

    def process(self, sample: Any, *, plan: IndexPlan) -> None:
        if self._bundle is None:
            self._bundle = BundleListing(plan, self._read)
        self._bundle.add(sample)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._bundle is not None:
            yield GlobalWindows.windowed_value(("", self._bundle.close()))


class _JoinRefs(beam.DoFn):
    """Joins the references of a bundle by block."""

    def start_bundle(self) -> None:
        self._collected = self._bytes = 0
        self._refs: defaultdict[BlockKey, list[bytes]] = defaultdict(list)

    def process(self, ordered: list[tuple[BlockKey, int, bytes]]) -> Iterator[tuple[BlockKey, bytes]]:
        for key, count, refs in ordered:
            self._refs[key].append(refs)
            self._collected += count
            self._bytes += len(refs)
        if self._collected >= _MOST_REFS or self._bytes >= _MOST_BYTES:
            yield from self._emit()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for pair in self._emit():
            yield GlobalWindows.windowed_value(pair)

    def _emit(self) -> Iterator[tuple[BlockKey, bytes]]:
        for key, refs in self._refs.items():
            yield key, join_packed(refs)
        self.start_bundle()
