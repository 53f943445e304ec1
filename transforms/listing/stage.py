"""IndexContainers, ListSource and AssignOrder: the references of an input, listed once and in their order."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_tfrecords import storage
from beam_tfrecords.transforms.listing.indexing import IndexPlan, index_container, read_containers
from beam_tfrecords.transforms.listing.listing import read_chunk_names
from beam_tfrecords.transforms.listing.ordering import order_chunk
from beam_tfrecords.transforms.processes.stage import MapInProcesses
from beam_tfrecords.transforms.ref_columns import join_packed
from beam_tfrecords.transforms.refs import BlockKey
from beam_tfrecords.transforms.sources.containers import Container

# A worker holds up to this many references, or bytes of them, so that those of one block travel together.
_MOST_REFS = 100_000
_MOST_BYTES = 64 << 20


class IndexContainers(beam.PTransform):
    """Lists the samples of the containers of a build, and spools what cannot be read at random: -> marker files.

    Args:
      plan: what the workers need to know.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, plan: IndexPlan, *, processes: int) -> None:
        super().__init__()
        self._folder = plan.folder
        self._index = functools.partial(index_container, plan=plan)
        self._processes = processes

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        return (
            begin
            | "Begin" >> beam.Impulse()
            | "Containers" >> beam.FlatMap(storage.bound(_containers), self._folder)
            | "Spread" >> beam.Reshuffle()
            | "Index" >> MapInProcesses(self._index, processes=self._processes)
        )


class ListSource(beam.PTransform):
    """Emits the chunk files of the listing of a build, spread over the workers: -> chunk file.

    The references of a chunk stay together, because a step costs the runner as much as all that is done with one.

    Args:
      folder: the build's folder for temporary files.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        return (
            begin
            | "Begin" >> beam.Impulse()
            | "Chunks" >> beam.FlatMap(storage.bound(_chunk_names), self._folder)
            | "Spread" >> beam.Reshuffle()
        )


class AssignOrder(beam.PTransform):
    """Gives every reference of a listing its block: chunk file -> ((split, block), references joined by `join_packed`).

    Joined and compressed, references take a third of the room in the shuffle, which the local runner holds in
    memory.

    Args:
      seed: of the order.
      blocks: split -> number of its blocks.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, *, seed: int, blocks: Mapping[str, int], processes: int) -> None:
        super().__init__()
        self._order = functools.partial(order_chunk, seed=seed, blocks=dict(blocks))
        self._processes = processes

    def expand(self, chunks: beam.PCollection[str]) -> beam.PCollection[tuple[BlockKey, bytes]]:
        return (
            chunks
            | "OrderChunks" >> MapInProcesses(self._order, processes=self._processes)
            | "JoinRefs" >> beam.ParDo(_JoinRefs()).with_output_types(tuple[tuple[str, int], bytes])
        )


def _containers(_: bytes, folder: str) -> Iterator[Container]:
    return read_containers(folder)


def _chunk_names(_: bytes, folder: str) -> Iterator[str]:
    return read_chunk_names(folder)


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
