"""CollectFiles: the small files that blocks leave beside their parts, few enough for one process to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.transforms.blocks.results import BlockResult
from beam_tfrecords.transforms.parts import RANGE_BLOCKS, RangeKey
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

Kind: TypeAlias = Literal["failures", "changes"]


def find_file(result: BlockResult, *, kind: Kind) -> Iterator[tuple[RangeKey, str]]:
    """The file of a block, if it has one, under the range of the block."""
    file = result.failures if kind == "failures" else result.changes
    if file is not None:
        yield (result.split, result.block // RANGE_BLOCKS), file


def join_files(found: tuple[RangeKey, Iterable[str]], *, kind: Kind, folder: str) -> str:
    """Concatenates the files of one range; every attempt writes the same bytes."""
    (split, number), files = found
    joined = BuildFolder(folder).joined_list(kind, f"{split}-{number:06d}")
    with storage.open_write(joined) as target:
        for file in sorted(files):
            target.write(storage.read_bytes(file))
    return joined
