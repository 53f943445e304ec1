"""Collects the small files that blocks write beside their parts, and joins them if one process could not read all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, get_args

from beam_tfrecords import storage
from beam_tfrecords.transforms.blocks.results import BlockResult
from beam_tfrecords.transforms.parts import RANGE_BLOCKS
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

Kind: TypeAlias = Literal["failures", "changes"]
# The files of a range of blocks: (kind, split, number of the range).
ListKey: TypeAlias = tuple[str, str, int]


def find_files(result: BlockResult) -> Iterator[tuple[ListKey, str]]:
    """Yields the files of a block, keyed by the range of the block."""
    for kind in get_args(Kind):
        file = getattr(result, kind)
        if file is not None:
            yield (kind, result.split, result.block // RANGE_BLOCKS), file


def take_file(found: tuple[ListKey, str]) -> tuple[str, str]:
    """Returns kind and path of a file."""
    (kind, _, _), file = found
    return kind, file


def join_files(found: tuple[ListKey, Iterable[str]], *, folder: str) -> tuple[str, str]:
    """Concatenates the files of one range; returns kind and path. Every attempt writes the same bytes."""
    (kind, split, number), files = found
    joined = BuildFolder(folder).joined_list(kind, f"{split}-{number:06d}")
    with storage.open_write(joined) as target:
        for file in sorted(files):
            target.write(storage.read_bytes(file))
    return kind, joined
