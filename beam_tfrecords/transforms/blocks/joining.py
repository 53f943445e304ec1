"""CollectFiles: the small files that blocks leave beside their parts, few enough for one process to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, get_args

from beam_tfrecords import storage
from beam_tfrecords.transforms.blocks.results import BlockResult
from beam_tfrecords.transforms.parts import RANGE_BLOCKS
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

Kind: TypeAlias = Literal["failures", "changes"]
# Of what the files of a range of blocks are: kind, split, range.
ListKey: TypeAlias = tuple[str, str, int]


def find_files(result: BlockResult) -> Iterator[tuple[ListKey, str]]:
    """The files of a block, under its range."""
    for kind in get_args(Kind):
        file = getattr(result, kind)
        if file is not None:
            yield (kind, result.split, result.block // RANGE_BLOCKS), file


def take_file(found: tuple[ListKey, str]) -> tuple[str, str]:
    """Kind and path of a file."""
    (kind, _, _), file = found
    return kind, file


def join_files(found: tuple[ListKey, Iterable[str]], *, folder: str) -> tuple[str, str]:
    """Concatenates the files of one range, and returns kind and path; every attempt writes the same bytes."""
    (kind, split, number), files = found
    joined = BuildFolder(folder).joined_list(kind, f"{split}-{number:06d}")
    with storage.open_write(joined) as target:
        for file in sorted(files):
            target.write(storage.read_bytes(file))
    return kind, joined
