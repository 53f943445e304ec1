"""CollectFiles: the small files that blocks leave beside their parts, few enough for one process to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import apache_beam as beam

from transforms import storage
from transforms.block_results import BlockResult
from transforms.shards import RANGE_BLOCKS, RangeKey

Kind: TypeAlias = Literal["failures", "changes"]


class CollectFiles(beam.PTransform):
    """Collects the files of one kind: BlockResult -> file.

    One process reads them all when the dataset is published. Of very many blocks, the files of each range are joined
    first: a million requests, one after the other, take a day.

    Args:
      kind: of the files.
      folder: for files that are joined.
      blocks: number of blocks of the build.
    """

    def __init__(self, kind: Kind, *, folder: str, blocks: int) -> None:
        super().__init__()
        self._kind = kind
        self._folder = folder
        self._joins = blocks > RANGE_BLOCKS

    def expand(self, results: beam.PCollection[BlockResult]) -> beam.PCollection[str]:
        # -> ((split, range), file)
        found = results | "FindFile" >> beam.FlatMap(find_file, kind=self._kind).with_output_types(
            tuple[tuple[str, int], str]
        )
        if not self._joins:
            return found | "TakeFile" >> beam.Values()
        return (
            found
            | "GroupRanges" >> beam.GroupByKey()
            | "JoinFiles" >> beam.Map(join_files, kind=self._kind, folder=self._folder)
        )


def find_file(result: BlockResult, *, kind: Kind) -> Iterator[tuple[RangeKey, str]]:
    """The file of a block, if it has one, under the range of the block."""
    file = result.failures if kind == "failures" else result.changes
    if file is not None:
        yield (result.split, result.block // RANGE_BLOCKS), file


def join_files(found: tuple[RangeKey, Iterable[str]], *, kind: Kind, folder: str) -> str:
    """Concatenates the files of one range; every attempt writes the same bytes."""
    (split, number), files = found
    joined = storage.join(folder, "joined", f"{split}-{number:06d}.{kind}.jsonl")
    with storage.open_write(joined) as target:
        for file in sorted(files):
            target.write(storage.read_bytes(file))
    return joined
