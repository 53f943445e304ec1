"""Reuses records of the previous dataset for the samples of a block, and counts the changes.

Both datasets are sorted by the same hash, so the samples of a block lie in one range of the previous shards. Bisection
finds their index rows, and their records are read in few large pieces. Each index is checked against its hash in the
manifest, and each record against its index row; samples with damaged records are converted again.
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
from beam_tfrecords.dataset.dataset import DatasetRef
from beam_tfrecords.dataset.files import DUPLICATES
from beam_tfrecords.dataset.index import CONVERSION_COLUMNS, INDEX_SCHEMA, fits_packed_hash, read_columns, unpack_hash
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import SampleError
from beam_tfrecords.escaping import write_json
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import Stored
from beam_tfrecords.tfrecord import RecordError, read_records
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample, PreparedSample, hash_images
from beam_tfrecords.transforms.hashing import SPACE, order_hashes
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import BlockKey, SampleRef, is_object_mask
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.stats import MOST_KEYS, Change, Key

# Bytes of a previous shard that are read at once and held in memory.
_WINDOW_BYTES = 4 << 20
_COLUMNS = INDEX_SCHEMA.names


@dataclasses.dataclass(frozen=True)
class ReusePlan:
    """The plan for workers that reuse records.

    Attributes:
      previous: names the previous dataset.
      seed: seed of the order of both datasets.
      blocks: split -> number of blocks of the new dataset.
      takes_images: whether converting the same files would give the same stored images.
      hashes_files: whether the fingerprint of a file is the hash of its bytes, so that every file is read.
      is_same_input: whether local files of one published path are one file. Otherwise their bytes are compared.
    """

    previous: DatasetRef
    seed: int
    blocks: Mapping[str, int]
    takes_images: bool
    hashes_files: bool
    is_same_input: bool = True

    def open(self, convert: ConvertSample, key: BlockKey) -> BlockReuse:
        """Returns the reuse for the samples of one block.

        Raises:
          BuildError: as `BlockReuse`.
        """
        return BlockReuse(self, convert, key)


@dataclasses.dataclass(frozen=True)
class PreviousRecord:
    """A record of the previous dataset: split, path of the shard relative to the dataset, and index row."""

    split: str
    file: str
    row: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class UnreadIndex:
    """A damaged index: split, name, and the range [low, high) of the order whose samples it lists."""

    split: str
    file: str
    low: int
    high: int


class BlockReuse:
    """Finds the records of the previous dataset for the samples of one block.

    Attributes:
      counts: ("change", kind, split, class) -> samples, ("earlier", split, class) -> records of the previous
        dataset whose keys are still listed, and ("damaged", file) -> samples that are converted again because this file
        of the previous dataset is damaged.

    Raises:
      BuildError: another dataset has replaced the previous one.
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
        # The block's own split comes last, so that it wins for a key that is in several splits.
        for split in sorted(_shards_by_split(plan.previous), key=lambda split: split == self._split):
            for found in _find_between(plan, split, low, high):
                if isinstance(found, PreviousRecord):
                    self._previous[found.row["key"]] = found
                elif split == self._split:
                    self._unread.append(found)
        self._unlisted = {key: record for key, record in self._previous.items() if record.split == self._split}
        self._lines: dict[Change, list[str]] = {}
        # (key, fingerprint) -> what `needs_image` found.
        self._found: dict[tuple[str, str], Change | None] = {}
        self._window = ("", 0, b"")

    def needs_image(self, ref: SampleRef) -> bool:
        """Whether the image of a sample has to be read."""
        if self._plan.hashes_files or not ref.fingerprint:
            return True
        found = self._found[ref.key, ref.fingerprint] = self._find(ref, {})
        return found is None

    def take(self, ref: SampleRef, images: Mapping[str, bytes]) -> tuple[PreparedSample, Change] | None:
        """Returns the sample from its previous record and its change, or None if the sample has to be converted.

        Args:
          images: image name -> bytes; empty if the images were not read.

        Raises:
          SampleError: the sample is rejected.
        """
        identity = (ref.key, ref.fingerprint)
        change = self._found[identity] if not images and identity in self._found else self._find(ref, images)
        record = self._previous.get(ref.key)
        example = self._read(record) if change and record else None
        if change is None or record is None or example is None:
            return None
        index_columns = {name: record.row[name] for name in CONVERSION_COLUMNS}
        return self._convert.reuse(ref, example, index_columns, whole=change is Change.COPIED), change

    def count(self, key: str, outcome: str | SampleError | None, change: Change | None) -> None:
        """Counts the change of a sample.

        Args:
          outcome: its label, or why it is rejected.
          change: result of `take`; None if the sample was converted.
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
            if unread:  # an estimate: most samples of the index had a record with this label
                self.counts["earlier", self._split, label] += 1
        self._add(change, key, label)
        if record is not None:
            self.counts["earlier", record.split, record.row["label"] or ""] += 1
            if record.split != self._split:
                self._add(Change.MOVED, key, label, before=record.split)

    def lines(self) -> str:
        """Returns the keys of changed samples and of previous records no longer listed, a JSON object per line."""
        for key, record in self._unlisted.items():
            self._add(Change.REMOVED, key, record.row["label"] or "")
        return "".join(line for lines in self._lines.values() for line in lines)

    def _add(self, change: Change, key: str, label: str, **index_columns: str) -> None:
        # A key that is not listed here may be in another split, so removed keys are counted at the end.
        if change is not Change.REMOVED:
            self.counts["change", change.value, self._split, label] += 1
        lines = self._lines.setdefault(change, [])
        if change is not Change.COPIED and len(lines) < MOST_KEYS:
            line = {"change": change.value, "key": key, "split": self._split, "class": label, **index_columns}
            lines.append(write_json(line) + "\n")

    def _find(self, ref: SampleRef, images: Mapping[str, bytes]) -> Change | None:
        """Returns what can be reused of a sample; None if nothing can."""
        record = self._previous.get(ref.key)
        # What the files with masks of objects say is not in the index.
        if record is None or ref.failure is not None or any(map(is_object_mask, ref.images)):
            return None
        refs = RefColumns.of_one(ref)
        try:
            (sample_hash,) = self._convert.sample_hashes(refs)
        except SampleError:  # conversion will raise it again
            return None
        # Equal sizes and times mean nothing for different uris; an equal hash proves equal content.
        has_bytes = bool(images) and hash_images(images) == record.row["content_hash"]
        needs_file = Content.IMAGE in self._convert.layout.required and not self._plan.hashes_files
        is_known = self._plan.is_same_input or not (ref.uri or "").startswith("/")
        listed = self._convert.listed_columns(refs)
        is_same_file = (is_known and listed["uri"] == [record.row["uri"]]) or not needs_file
        if unpack_hash(record.row["sample_hash"]) == sample_hash and (is_same_file or has_bytes):
            return Change.COPIED
        layout = self._convert.layout
        if (Content.OBJECTS in layout.required or layout.moves_points) and record.row["source_height"] is None:
            # Objects are placed by the size of the source.
            return None
        is_unknown = Stored.MASK in layout.stored or layout.required & {Content.ARRAY, Content.RECORDS}
        if is_unknown or layout.image_names:
            # The mask, the names of images or the settings of arrays may have changed, and the index does not say so.
            # A record of the input is stored as it is, or not at all.
            return None
        (fingerprint,) = listed["fingerprint"]
        is_same = is_same_file and fingerprint and fingerprint == record.row["fingerprint"]
        if self._plan.takes_images and (is_same or has_bytes):
            return Change.RESERIALIZED
        return None

    def _explain_missing(self, key: str) -> Change:
        """Returns whether a sample without a previous record is new or was dropped as a duplicate."""
        dropped = _find_dropped(self._plan.previous, self._plan.seed)
        if not len(dropped):
            return Change.ADDED
        order = order_hashes(seed=self._plan.seed, keys=[key])[0]
        place = int(np.searchsorted(dropped, np.uint64(order)))
        return Change.DROPPED if place < len(dropped) and dropped[place] == order else Change.ADDED

    def _read(self, record: PreviousRecord) -> bytes | None:
        """Reads the serialized example of a record; returns None if the record is damaged or missing."""
        try:
            data = retry_faults(record.file, functools.partial(self._read_range, record))
            (stored,) = read_records(io.BytesIO(data))
        except (OSError, ValueError, RecordError):
            stored = None
        # The record of another sample would have correct CRCs too, so the index row is compared.
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
            # Records are read in order, so the bytes that follow are needed next.
            path = storage.join(self._plan.previous.path, record.file)
            data, start = storage.read_range(path, offset, max(length, _WINDOW_BYTES)), 0
            self._window = (record.file, offset, data)
        return data[start : start + length]


@functools.lru_cache(maxsize=2)
def _shards_by_split(previous: DatasetRef) -> dict[str, list[Shard]]:
    """Returns split -> its shards that have a first key, by number; without splits that have none."""
    found: dict[str, list[Shard]] = {}
    for shard in previous.open().shards:
        if shard.first_key is not None:
            found.setdefault(shard.split, []).append(shard)
    return found


def _is_published(path: str, sha256: str | None) -> bool:
    """Whether a file has the published hex SHA-256; False if `sha256` is None."""
    try:
        return sha256 is not None and retry_faults(path, functools.partial(storage.sha256, path)) == sha256
    except OSError:
        return False


@functools.lru_cache(maxsize=2)
def _find_dropped(previous: DatasetRef, seed: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Returns the sorted order hashes of the duplicates that a dataset has dropped, 8 bytes each.

    For an image with very many copies, the list of duplicates names only the first ones. If the list is damaged, the
    result is empty and the copies count as added.
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
    """Yields the records of a split whose order is in [low, high), and the damaged indices in that range."""

    def order(key: str | None) -> int:
        return order_hashes(seed=plan.seed, keys=[key or ""])[0]

    shards = _shards_by_split(plan.previous)[split]
    first = bisect.bisect_right(shards, low, key=lambda shard: order(shard.first_key))
    end = bisect.bisect_left(shards, high, key=lambda shard: order(shard.first_key))
    for place in range(max(0, first - 1), end):
        shard = shards[place]
        assert shard.index is not None
        table = _read_index(storage.join(plan.previous.path, shard.index), shard.index_sha256)
        if table is None:
            beyond = order(shards[place + 1].first_key) if place + 1 < len(shards) else SPACE
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
    """Reads the rows of an index; returns None if it cannot be read or does not have the published hex SHA-256."""
    try:
        data = retry_faults(path, functools.partial(storage.read_bytes, path))
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    return read_columns(data, _COLUMNS)
