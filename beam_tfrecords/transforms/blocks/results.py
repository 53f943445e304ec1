"""The result of a block: its checkpoint, from which a resumed build reads it, and its small files beside the parts.

If one process could not read the small files of all blocks, those of each range of blocks are joined.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.transforms.parts import RANGE_BLOCKS, Part
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import read_if_there


@dataclasses.dataclass(frozen=True)
class BlockResult:
    """A finished block.

    Attributes:
      lists: "failures" for rejected samples and "changes" since the previous dataset -> file with a JSON object per
        line, and its size in bytes; without empty ones.
      run_id: the run that converted the block, if it has failures that may not be the sample's fault; else "".
      files_seen: digest of the files without a listed fingerprint; "" if all fingerprints are listed.
      is_resumed: whether the result comes from the checkpoint.
    """

    split: str
    block: int
    parts: tuple[Part, ...]
    stats: Stats
    lists: Mapping[str, tuple[str, int]] = dataclasses.field(default_factory=dict)
    run_id: str = ""
    files_seen: str = ""
    is_resumed: bool = dataclasses.field(default=True, compare=False)

    @property
    def files(self) -> dict[str, int]:
        """File -> size in bytes."""
        sizes = dict(self.lists.values())
        for part in self.parts:
            sizes[part.uri] = part.bytes
            if part.rows is None:
                sizes[part.index] = part.index_bytes
        return sizes

    def to_json(self) -> dict[str, Any]:
        """Returns plain values for the checkpoint of the block."""
        values = {**dataclasses.asdict(self), "stats": self.stats.to_json()}
        # All attempts of a run write the same checkpoint.
        del values["is_resumed"]
        for part in values["parts"]:
            del part["hashes"]
            rows = part.pop("rows")
            if rows is not None:
                part["rows"] = base64.b64encode(rows).decode()
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> BlockResult:
        """Makes a result from the output of `to_json`."""
        parts = tuple(
            Part(**{**part, "rows": base64.b64decode(part["rows"]) if "rows" in part else None})
            for part in values["parts"]
        )
        lists = {kind: (file, size) for kind, (file, size) in values["lists"].items()}
        return cls(**{**values, "parts": parts, "lists": lists, "stats": Stats.from_json(values["stats"])})

    def is_final(self, run_id: str) -> bool:
        """Whether a run has no failures to retry in this block."""
        return self.run_id in ("", run_id)


def read_checkpoint(checkpoint: str) -> BlockResult | None:
    """Returns the result of a finished block; None if the checkpoint or a file that it names is missing or damaged."""
    content = read_if_there(checkpoint, read=storage.read_bytes)
    if content is None:
        return None
    try:
        result = BlockResult.from_json(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not storage.have_sizes(result.files):
        return None
    # Stores write objects atomically.
    return result if storage.has_scheme(checkpoint) or _are_whole(result) else None


def _are_whole(result: BlockResult) -> bool:
    """Whether the files are intact. After a power loss a file can have the right size but contain zeros.

    Reading the files takes little time compared with converting the block again.
    """
    crcs = {part.uri: part.crc32c for part in result.parts}
    crcs.update({part.index: part.index_crc32c for part in result.parts})
    # JSON has no zero bytes.
    try:
        return all(storage.crc32c(path) == crc for path, crc in crcs.items()) and not any(
            b"\0" in storage.read_bytes(path) for path, _ in result.lists.values()
        )
    except OSError:
        return False


# The files of a range of blocks: (kind, split, number of the range).
ListKey: TypeAlias = tuple[str, str, int]


def find_files(result: BlockResult) -> Iterator[tuple[ListKey, str]]:
    """Yields the files of a block, keyed by the range of the block."""
    for kind, (file, _) in result.lists.items():
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
