"""Reuses records of the previous dataset for the samples of a block, and counts the changes.

Both datasets are in the order of the same hash, so the samples of a block lie in one range of the previous shards:
its index rows are found by bisection, and its records are read in few large pieces. An index is checked against the
manifest's hash of it, and a record against its row; what is damaged is converted again.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from beam_tfrecords import storage
from beam_tfrecords.errors import SampleError
from beam_tfrecords.escaping import write_json
from beam_tfrecords.output.files import DUPLICATES
from beam_tfrecords.output.index import CONVERSION_COLUMNS, INDEX_SCHEMA, fits_packed_hash, read_columns, unpack_hash
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.reading.dataset import DatasetRef
from beam_tfrecords.tfrecord import RecordError, read_records
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample, PreparedSample, hash_images
from beam_tfrecords.transforms.hashing import SPACE, order_hashes
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import BlockKey, SampleRef
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.stats import MOST_KEYS, Change, Key

# Bytes read at once of a previous shard; a worker holds so many.
_WINDOW_BYTES = 4 << 20
_COLUMNS = INDEX_SCHEMA.names


@dataclasses.dataclass(frozen=True)
class ReusePlan:
    """What a worker needs to know to take records over.

    Attributes:
      previous: names the previous dataset.
      seed: of its order, and of the new one.
      blocks: split -> number of blocks of the new dataset.
      takes_images: whether converting the same files would make the stored images again.
      hashes_files: whether the bytes of a file are its fingerprint, so that every file is read.
    """

    previous: DatasetRef
    seed: int
    blocks: Mapping[str, int]
    takes_images: bool
    hashes_files: bool


@dataclasses.dataclass(frozen=True)
class PreviousRecord:
    """A record of the previous dataset: its split, its shard, relative to the dataset, and its index row."""

    split: str
    file: str
    row: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class UnreadIndex:
    """An index that is damaged: its split, its name, and the range of the order whose samples it has."""

    split: str
    file: str
    low: int
    high: int


class BlockReuse:
    """The earlier dataset as one block sees it.

    Attributes:
      counts: ("change", kind, split, class) -> samples, ("earlier", split, class) -> records of the earlier
        dataset whose keys are still listed, and ("damaged", file) -> samples that are converted again because a file
        of the previous dataset is.

    Raises:
      BuildError: another dataset has taken the place of the earlier one.
    """

    def __init__(self, plan: ReusePlan, convert: ConvertSample, key: BlockKey) -> None:
        self.counts: Counter[Key] = Counter()
        self._plan = plan
        self._convert = convert
        self._split, number = key
        blocks = plan.blocks[self._split]
        low, high = (-(-edge * SPACE // blocks) for edge in (number, number + 1))
        self._previous: dict[str, PreviousRecord] = {}
        self._unread: list[UnreadIndex] = []
        # The block's own split last: a key that is in several splits is then found there.
        for split in sorted(_shards_by_split(plan.previous), key=lambda split: split == self._split):
            for found in _find_between(plan, split, low, high):
                if isinstance(found, PreviousRecord):
                    self._previous[found.row["key"]] = found
                elif split == self._split:
                    self._unread.append(found)
        self._unlisted = {key: record for key, record in self._previous.items() if record.split == self._split}
        self._lines: dict[Change, list[str]] = {}
        # (key, fingerprint) -> hash of the sample.
        self._hashes: dict[tuple[str, str], str] = {}
        self._window = ("", 0, b"")

    def needs_image(self, ref: SampleRef) -> bool:
        """Whether the image has to be read."""
        return self._plan.hashes_files or not ref.fingerprint or self._find(ref, {}) is None

    def take(self, ref: SampleRef, images: Mapping[str, bytes]) -> tuple[PreparedSample, Change] | None:
        """The sample from its previous record, or None if it has to be converted.

        Args:
          images: the bytes of its images by their names, if they were read.

        Raises:
          SampleError: why it is rejected.
        """
        change = self._find(ref, images)
        record = self._previous.get(ref.key)
        example = self._read(record) if change and record else None
        if change is None or record is None or example is None:
            return None
        # An earlier version of the index may lack some.
        index_columns = {name: record.row.get(name) for name in CONVERSION_COLUMNS}
        return self._convert.reuse(ref, example, index_columns, whole=change is Change.COPIED), change

    def count(self, key: str, outcome: str | SampleError | None, change: Change | None) -> None:
        """Counts what became of a sample.

        Args:
          outcome: its label, or why it is rejected.
          change: what `take` said; None if it was converted.
        """
        record = self._previous.get(key)
        self._unlisted.pop(key, None)
        unread = None if record else self._find_unread(key)
        if unread:
            self.counts["damaged", unread.file] += 1
        if isinstance(outcome, SampleError):
            change, label = Change.FAILED, ""
        else:
            change = change or (Change.CHANGED if record or unread else self._explain_missing(key))
            label = outcome or ""
            if unread:  # most of its samples had a record, and the same label
                self.counts["earlier", self._split, label] += 1
        self._add(change, key, label)
        if record is not None:
            self.counts["earlier", record.split, record.row["label"] or ""] += 1
            if record.split != self._split:
                self._add(Change.MOVED, key, label, before=record.split)

    def lines(self) -> str:
        """Keys of changes, a JSON object per line, and those of previous records that are not listed any more."""
        for key, record in self._unlisted.items():
            self._add(Change.REMOVED, key, record.row["label"] or "")
        return "".join(line for lines in self._lines.values() for line in lines)

    def _add(self, change: Change, key: str, label: str, **index_columns: str) -> None:
        # What is not listed here may be in another split, so it is counted at the end.
        if change is not Change.REMOVED:
            self.counts["change", change.value, self._split, label] += 1
        lines = self._lines.setdefault(change, [])
        if change is not Change.COPIED and len(lines) < MOST_KEYS:
            line = {"change": change.value, "key": key, "split": self._split, "class": label, **index_columns}
            lines.append(write_json(line) + "\n")

    def _find(self, ref: SampleRef, images: Mapping[str, bytes]) -> Change | None:
        """What can be reused of a sample; None if nothing can."""
        record = self._previous.get(ref.key)
        if record is None or ref.failure is not None:
            return None
        identity = (ref.key, ref.fingerprint)
        try:
            sample_hash = self._hashes.get(identity) or self._convert.sample_hashes(RefColumns.of_one(ref))[0]
        except SampleError:  # conversion says so again
            return None
        self._hashes[identity] = sample_hash
        # A size and a time say nothing of a file elsewhere, and the hash of a file everything.
        has_bytes = bool(images) and hash_images(images) == record.row["content_hash"]
        needs_file = self._convert.layout.needs_image and not self._plan.hashes_files
        is_same_file = ref.uri == record.row["uri"] or not needs_file
        if unpack_hash(record.row["sample_hash"]) == sample_hash and (is_same_file or has_bytes):
            return Change.COPIED
        if self._convert.layout.needs_objects and record.row.get("source_height") is None:
            # Written before the index had what places objects.
            return None
        if self._convert.layout.needs_mask or self._convert.layout.image_names:
            # What changed may be its mask, or which image is which: the index says nothing of them.
            return None
        is_same = is_same_file and ref.fingerprint and ref.fingerprint == record.row["fingerprint"]
        if self._plan.takes_images and (is_same or has_bytes):
            return Change.RESERIALIZED
        return None

    def _explain_missing(self, key: str) -> Change:
        """Why the previous dataset has no record of a sample."""
        dropped = _find_dropped(self._plan.previous, self._plan.seed)
        if not len(dropped):
            return Change.ADDED
        order = order_hashes(seed=self._plan.seed, keys=[key])[0]
        place = int(np.searchsorted(dropped, np.uint64(order)))
        return Change.DROPPED if place < len(dropped) and dropped[place] == order else Change.ADDED

    def _read(self, record: PreviousRecord) -> bytes | None:
        """The serialized example of a record; None if the shard no longer holds it."""
        try:
            data = retry_faults(record.file, functools.partial(self._read_range, record))
            (stored,) = read_records(io.BytesIO(data))
        except (OSError, ValueError, RecordError):
            stored = None
        # The CRCs of another sample's record are right too.
        if stored is None or not fits_packed_hash(record.row["sample_hash"], stored.data):
            self.counts["damaged", record.file] += 1
            return None
        return stored.data

    def _find_unread(self, key: str) -> UnreadIndex | None:
        order = order_hashes(seed=self._plan.seed, keys=[key])[0] if self._unread else 0
        return next((unread for unread in self._unread if unread.low <= order < unread.high), None)

    def _read_range(self, record: PreviousRecord) -> bytes:
        offset, length = record.row["offset"], record.row["length"]
        file, begin, data = self._window
        start = offset - begin
        if file != record.file or start < 0 or start + length > len(data):
            # Records are asked for in their order, so those that follow are needed next.
            path = storage.join(self._plan.previous.path, record.file)
            data, start = storage.read_range(path, offset, max(length, _WINDOW_BYTES)), 0
            self._window = (record.file, offset, data)
        return data[start : start + length]


@functools.lru_cache(maxsize=2)
def _shards_by_split(previous: DatasetRef) -> dict[str, list[Shard]]:
    shards: dict[str, list[Shard]] = {}
    for shard in previous.open().shards:
        if shard.first_key is not None:
            shards.setdefault(shard.split, []).append(shard)
    return shards


def _is_published(path: str, sha256: str | None) -> bool:
    """Whether a file is the one that was published, whose hex SHA-256 is given; None if none was."""
    try:
        return sha256 is not None and retry_faults(path, functools.partial(storage.sha256, path)) == sha256
    except OSError:
        return False


@functools.lru_cache(maxsize=2)
def _find_dropped(previous: DatasetRef, seed: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The places in the order of the copies that a dataset has dropped, sorted: eight bytes for each.

    Of an image with very many copies, its list names the first ones. A damaged list names none: the copies count as
    added.
    """
    dataset, path = previous.open(), storage.join(previous.path, DUPLICATES)
    keys: list[str] = []
    if _is_published(path, dataset.manifest["files"].get(DUPLICATES)):
        with storage.open_read(path) as file:
            for group in map(json.loads, file):
                kept = group.get("kept")
                keys += [image["key"] for image in group["images"] if kept is not None and image["key"] != kept]
    return np.sort(np.asarray(order_hashes(seed=seed, keys=keys)))


def _find_between(plan: ReusePlan, split: str, low: int, high: int) -> Iterator[PreviousRecord | UnreadIndex]:
    """The records of a split whose order is in [low, high), and the indices there that are damaged."""

    def order(key: str | None) -> int:
        return order_hashes(seed=plan.seed, keys=[key or ""])[0]

    shards = _shards_by_split(plan.previous)[split]
    first = bisect.bisect_right(shards, low, key=lambda shard: order(shard.first_key))
    end = bisect.bisect_left(shards, high, key=lambda shard: order(shard.first_key))
    for number in range(max(0, first - 1), end):
        shard = shards[number]
        assert shard.index is not None
        table = _read_index(storage.join(plan.previous.path, shard.index), shard.index_sha256)
        if table is None:
            beyond = order(shards[number + 1].first_key) if number + 1 < len(shards) else SPACE
            yield UnreadIndex(split, shard.index, order(shard.first_key), beyond)
            continue
        keys = table["key"]
        begin, stop = (
            bisect.bisect_left(range(len(keys)), edge, key=lambda row: order(keys[row].as_py())) for edge in (low, high)
        )
        for row in table.slice(begin, stop - begin).to_pylist():
            yield PreviousRecord(split, shard.file, row)


@functools.lru_cache(maxsize=2)
def _read_index(path: str, sha256: str | None) -> pa.Table | None:
    """The rows of an index; None if it is not the one that was published, whose hex SHA-256 is given."""
    try:
        data = retry_faults(path, functools.partial(storage.read_bytes, path))
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    return read_columns(data, _COLUMNS)
