"""The result of a block, and the checkpoint that keeps it for a build that resumes."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.transforms.parts import Part
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.state_files import read_if_there


@dataclasses.dataclass(frozen=True)
class BlockResult:
    """A finished block.

    Attributes:
      failures: file with the samples that it rejected, a JSON object per line; None if there are none.
      changes: file with what has changed since the previous dataset, a JSON object per line; None without one.
      run_id: the run that converted it, if it has failures that may not be the sample's fault; else "".
      files_seen: digest of the files whose fingerprints the listing does not tell; "" if it tells all.
      msec: step -> milliseconds that the conversion spent in it; None if the block is taken from its checkpoint.
    """

    split: str
    block: int
    parts: tuple[Part, ...]
    failures: str | None
    stats: Stats
    failures_bytes: int = 0
    changes: str | None = None
    changes_bytes: int = 0
    run_id: str = ""
    files_seen: str = ""
    msec: Mapping[str, int] | None = dataclasses.field(default=None, compare=False)

    @property
    def files(self) -> dict[str, int]:
        """File -> size in bytes."""
        sizes: dict[str | None, int] = {self.failures: self.failures_bytes, self.changes: self.changes_bytes}
        for part in self.parts:
            sizes[part.uri] = part.bytes
            if part.rows is None:
                sizes[part.index] = part.index_bytes
        return {file: size for file, size in sizes.items() if file is not None}

    def to_json(self) -> dict[str, Any]:
        """As plain values, for the checkpoint of the block."""
        values = {**dataclasses.asdict(self), "stats": self.stats.to_json()}
        # All attempts of a run write the same checkpoint.
        del values["msec"]
        for part in values["parts"]:
            del part["hashes"]
            rows = part.pop("rows")
            if rows is not None:
                part["rows"] = base64.b64encode(rows).decode()
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> BlockResult:
        """The reverse of `to_json`."""
        parts = tuple(
            Part(**{**part, "rows": base64.b64decode(part["rows"]) if "rows" in part else None})
            for part in values["parts"]
        )
        return cls(**{**values, "parts": parts, "stats": Stats.from_json(values["stats"])})

    def is_final(self, run_id: str) -> bool:
        """Whether a run has nothing to try again in this block."""
        return self.run_id in ("", run_id)


def read_checkpoint(checkpoint: str) -> BlockResult | None:
    """The result of a finished block; None if there is no checkpoint, or it or a file that it names is not whole."""
    content = read_if_there(checkpoint, read=storage.read_bytes)
    if content is None:
        return None
    try:
        result = BlockResult.from_json(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not storage.have_sizes(result.files):
        return None
    # An object of a store is whole, or not there.
    return result if storage.has_scheme(checkpoint) or _are_whole(result) else None


def _are_whole(result: BlockResult) -> bool:
    """Whether the files hold what was written: after a power cut some have their size, and zeros in them.

    Reading them takes little beside converting the block again.
    """
    crcs = {part.uri: part.crc32c for part in result.parts}
    crcs.update({part.index: part.index_crc32c for part in result.parts})
    # JSON has no zero bytes.
    lists = [path for path in (result.failures, result.changes) if path]
    try:
        return all(storage.crc32c(path) == crc for path, crc in crcs.items()) and not any(
            b"\0" in storage.read_bytes(path) for path in lists
        )
    except OSError:
        return False
