"""The listing of a build: totals, and chunk files of references that retries and resumed builds can read again."""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import itertools
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgpack
import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.dataset.published_paths import UNCHANGED, PublishedPaths
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.identity import digest
from beam_tfrecords.transforms.labels import class_label
from beam_tfrecords.transforms.listing.decisions import UNDECIDED, AssignSplits, Decisions
from beam_tfrecords.transforms.listing.groups import Groups
from beam_tfrecords.transforms.refs.overflow_rows import OverflowRows, load_oversized, name_overflow_file
from beam_tfrecords.transforms.refs.ref_columns import (
    RefColumns,
    by_column,
    join_alike,
    join_packed,
    one_by_one,
    unpack_refs,
)
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, Scalar
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.selection import EVERYTHING, SKIPPED, Selection
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import naming_damage

# A chunk ends when it reaches one of these numbers of references or bytes.
CHUNK_REFS = 10_000
CHUNK_BYTES = 16 << 20
# Tolerance for rounded boxes that reach beyond an image: share of its size, and pixels.
_SLACK, _SLACK_PIXELS = 0.01, 1
_SMALL = 1.5
_pack = msgpack.Packer().pack


@dataclasses.dataclass
class ObjectTotals:
    """Totals of the objects of samples that are not rejected.

    Attributes:
      samples: samples that can have objects.
      annotated: samples with at least one object.
      in_pixels: boxes in pixels.
      small: boxes in pixels whose coordinates are all within 1.5, so that they may be shares instead.
      placed: boxes in shares of the image's size, or in pixels of an image whose size the source gives.
      beyond: placed boxes that reach beyond the image.
      as_corners: placed boxes that stay valid and inside the image if their width and height are read as xmax and ymax.
      as_centers: placed boxes that are inside the image if their upper left corner is read as their center.
      left_out: objects of classes that the request does not want; not counted above.
    """

    samples: int = 0
    annotated: int = 0
    in_pixels: int = 0
    small: int = 0
    placed: int = 0
    beyond: int = 0
    as_corners: int = 0
    as_centers: int = 0
    left_out: int = 0

    def add(self, packed: Iterable[Sequence[Any] | None]) -> None:
        """Counts the packed objects (`Objects.pack`) of samples; None stands for a sample that cannot have objects."""
        found = [objects for objects in packed if objects is not None]
        self.samples += len(found)
        found = [objects for objects in found if objects[0]]
        self.annotated += len(found)
        if not found:
            return
        boxes = np.frombuffer(b"".join(objects[0] for objects in found), "<f8").reshape(-1, 4)
        counts = [len(objects[0]) // 32 for objects in found]
        sizes = [(1, 1) if objects[6] else objects[5] or (np.nan, np.nan) for objects in found]
        pixels = np.repeat([not objects[6] for objects in found], counts)
        size = np.repeat(np.array(sizes, float), counts, axis=0)
        is_box = np.isfinite(boxes).all(axis=1)
        boxes, size, pixels = boxes[is_box], size[is_box], pixels[is_box]
        slack = _SLACK * size + _SLACK_PIXELS * pixels[:, None]
        low, high = boxes[:, :2], boxes[:, 2:]
        sides = high - low
        self.in_pixels += int(pixels.sum())
        self.small += int((pixels & (np.abs(boxes) <= _SMALL).all(axis=1)).sum())
        self.placed += int(np.isfinite(size).all(axis=1).sum())
        self.beyond += int(((low < -slack) | (high > size + slack)).any(axis=1).sum())
        self.as_corners += int(((sides > low) & (sides <= size + slack)).all(axis=1).sum())
        self.as_centers += int(((low >= sides / 2 - slack) & (low + sides / 2 <= size + slack)).all(axis=1).sum())

    def merge(self, other: ObjectTotals) -> None:
        """Adds the totals of another listing."""
        for name, value in dataclasses.asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclasses.dataclass
class Listing:
    """The listed samples: totals, and chunk files with the references.

    Attributes:
      samples: split -> number of samples; "" counts samples without a valid split.
      source_bytes: split -> bytes of the image files, as far as the source gives their sizes.
      ref_bytes: split -> packed bytes of the references (`RefColumns.identities`), without fingerprints and
        rejected samples.
      labels: label -> number of samples, if labels were counted; None counts samples without a label.
      split_labels: split -> labels of its samples, if labels were counted.
      digest: sum of the hashes of all references in the chunk files, modulo 2**128, so that it does not depend on their
        order.
      chunks: files with the references.
      overflow_files: files beside chunks with their oversized rows.
      folders: summary of the folders of the samples, if `ListPlan.summarizes_folders`.
      unmatched: globs of the selection that match no sample and no skipped file; None if nothing was listed.
      unknown: samples with an image whose size and time the source does not give, so that the fingerprint of the
        listing does not show changes in them.
      read_with: file beside the containers that was opened or looked up during listing -> its fingerprint;
        None if there are too many files to track, or if containers name files outside themselves.
      objects: totals of the annotated objects.
      column_labels: column with classes -> label -> number of samples; see `ListPlan.class_columns`.
      groups: the samples by what decisions look at.
      decisions: what the listing decides about the references in the chunk files; the totals include it.
    """

    samples: Counter[str] = dataclasses.field(default_factory=Counter)
    source_bytes: Counter[str] = dataclasses.field(default_factory=Counter)
    labels: Counter[Scalar] = dataclasses.field(default_factory=Counter)
    split_labels: dict[str, set[Scalar]] = dataclasses.field(default_factory=dict)
    digest: int = 0
    chunks: list[str] = dataclasses.field(default_factory=list)
    unknown: int = 0
    folders: FolderSummary = dataclasses.field(default_factory=FolderSummary)
    unmatched: frozenset[str] | None = None
    read_with: dict[str, str] | None = dataclasses.field(default_factory=dict)
    objects: ObjectTotals = dataclasses.field(default_factory=ObjectTotals)
    ref_bytes: Counter[str] = dataclasses.field(default_factory=Counter)
    overflow_files: list[str] = dataclasses.field(default_factory=list)
    column_labels: dict[str, Counter[Scalar]] = dataclasses.field(default_factory=dict)
    groups: Groups = dataclasses.field(default_factory=Groups)
    decisions: Decisions = UNDECIDED

    @property
    def files(self) -> list[str]:
        """All files that contain references."""
        return [*self.chunks, *self.overflow_files]

    @property
    def total(self) -> int:
        """Number of all samples."""
        return sum(self.samples.values())

    @property
    def fingerprint(self) -> str:
        """Hex digest that changes with a sample, the location of an image, or a decision."""
        listed = f"{self.digest:032x}"
        if not self.decisions:
            return listed
        decided = f"{listed} {digest(self.decisions)}"
        return hashlib.blake2b(decided.encode(), digest_size=16).hexdigest()

    def add(self, refs: RefColumns, *, plan: ListPlan) -> list[int]:
        """Counts the references of a chunk file; returns the bytes of each. The digest contains published paths."""
        identities = self.count(refs, plan=plan)
        # Equal sizes and times say nothing about files with different names.
        for identity, names, group in zip(identities, refs.names(plan.paths), refs.each("group"), strict=True):
            packed = identity + (_pack(names) if names else b"") + (b"" if group is None else group.encode())
            self.digest += int.from_bytes(hashlib.blake2b(packed, digest_size=16).digest(), "big")
        self.digest %= 1 << 128
        return list(map(len, identities))

    def count(self, refs: RefColumns, *, plan: ListPlan) -> list[bytes]:
        """Counts references as far as decisions change them; returns their identities."""
        splits = [split or "" for split in refs.each("split")]
        self.samples.update(splits)
        if any(refs.each("size")):
            for split, size in zip(splits, refs.each("size"), strict=True):
                if size:
                    self.source_bytes[split] += size
        if any(refs.each("images")):
            pairs = zip(refs.each("images"), refs.each("fingerprint"), strict=True)
            self.unknown += sum(bool(images) and not fingerprint for images, fingerprint in pairs)
        if any(refs.each("objects")):
            pairs = zip(refs.each("objects"), refs.each("failure"), strict=True)
            self.objects.add(objects for objects, failure in pairs if failure is None)
        if plan.count_labels:
            known = zip(splits, refs.all_labels(), refs.each("failure"), strict=True)
            found = [(split, labels) for split, labels, failure in known if failure is None and labels]
            self.labels.update(itertools.chain.from_iterable(labels for _, labels in found))
            for split, labels in found:
                self.split_labels.setdefault(split, set()).update(labels)
        identities = list(refs.identities())
        of_each = zip(identities, refs.each("fingerprint"), refs.each("failure"), strict=True)
        # Fingerprints depend on the location of the input, which must not influence the number of blocks.
        sizes = [len(packed) - len(found) if failure is None else 0 for packed, found, failure in of_each]
        for split, size in zip(splits, sizes, strict=True):
            self.ref_bytes[split] += size
        self.groups.add(refs, sizes, by_image=plan.paths_are_images, count_labels=plan.count_labels)
        return identities

    def count_classes(self, refs: RefColumns, *, plan: ListPlan) -> None:
        """Counts the labels in the columns with classes, of samples without a failure."""
        for name in plan.class_columns:
            if name in refs.columns:
                known = zip(refs.columns[name], refs.each("failure"), strict=True)
                self.column_labels.setdefault(name, Counter()).update(
                    label for label, failure in known if failure is None and not isinstance(label, list)
                )

    def merge(self, other: Listing) -> None:
        """Adds the samples of another listing."""
        self.samples.update(other.samples)
        self.source_bytes.update(other.source_bytes)
        self.ref_bytes.update(other.ref_bytes)
        self.labels.update(other.labels)
        for split, labels in other.split_labels.items():
            self.split_labels.setdefault(split, set()).update(labels)
        self.digest = (self.digest + other.digest) % (1 << 128)
        self.chunks += other.chunks
        self.overflow_files += other.overflow_files
        self.unknown += other.unknown
        self.folders.merge(other.folders)
        self.objects.merge(other.objects)
        self.groups.merge(other.groups)
        for name, counts in other.column_labels.items():
            self.column_labels.setdefault(name, Counter()).update(counts)
        if self.read_with is not None:
            self.read_with = None if other.read_with is None else {**other.read_with, **self.read_with}
        if other.unmatched is not None:
            self.unmatched = other.unmatched if self.unmatched is None else self.unmatched & other.unmatched

    def pack(self) -> bytes:
        """Packs the listing to bytes for the checkpoint of a container."""
        totals = (dict(self.samples), dict(self.source_bytes), list(self.labels.items()))
        split_labels = [(split, list(labels)) for split, labels in self.split_labels.items()]
        files = (self.chunks, self.unknown, self.folders.pack(), sorted(self.unmatched or ()), self.read_with)
        objects = dataclasses.astuple(self.objects)
        of_columns = [(name, list(labels.items())) for name, labels in self.column_labels.items()]
        late = dict(self.ref_bytes), self.overflow_files, of_columns, self.groups.pack()
        packed: bytes = msgpack.packb((*totals, self.fingerprint, split_labels, *files, objects, *late))
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Listing:
        """Unpacks the output of `pack`."""
        samples, sizes, labels, fingerprint, *rest = msgpack.unpackb(packed)
        split_labels, chunks, unknown, folders, unmatched, read_with, objects, *late = rest
        ref_bytes, overflow_files, of_columns, groups = late
        return cls(
            Counter(samples),
            Counter(sizes),
            Counter(dict(labels)),
            {split: set(found) for split, found in split_labels},
            int(fingerprint, 16),
            chunks,
            unknown,
            FolderSummary.unpack(folders),
            frozenset(unmatched),
            read_with,
            ObjectTotals(*objects),
            Counter(ref_bytes),
            overflow_files,
            {name: Counter(dict(found)) for name, found in of_columns},
            Groups.unpack(groups),
        )


@dataclasses.dataclass(frozen=True)
class ListPlan:
    """The settings for listing samples.

    Attributes:
      splits: splits by fractions, which groups are counted by; None if the request has none. Chunk files have the words
        of the source.
      count_labels: whether to count labels. False saves memory when none are needed, as every row may have another.
      selection: which samples to list.
      summarizes_folders: whether to collect a summary of the samples' folders.
      paths_are_images: as `by_image` of `PathWords.add`.
      class_columns: columns whose values are classes, which are read and counted as labels are.
      missing: words for an empty cell of these columns.
      paths: published paths of the request.
    """

    splits: AssignSplits | None = None
    count_labels: bool = True
    selection: Selection = EVERYTHING
    summarizes_folders: bool = False
    paths_are_images: bool = False
    class_columns: Sequence[str] = ()
    missing: frozenset[str] = frozenset()
    paths: PublishedPaths = UNCHANGED


def write_listing(
    samples: Iterable[SampleRef | RefColumns],
    folder: str,
    *,
    plan: ListPlan,
    tally: Tally | None = None,
    stem: str = "",
) -> Listing:
    """Writes references to chunk files. Holds only one chunk in memory.

    Args:
      tally: counts samples that the selection leaves out.
    """
    listing = Listing(groups=Groups(counted_by=plan.splits))
    pending: list[RefColumns] = []
    staging = OverflowRows()
    count = held = 0

    def write_chunk() -> None:
        nonlocal count, held, staging
        path = storage.join(folder, f"{stem}{len(listing.chunks):06d}.refs")
        # Who looks at the first references unpacks only their batch.
        batches = itertools.chain(pending[:1], join_alike(pending[1:]))
        storage.write_bytes(path, join_packed(refs.pack() for refs in batches))
        listing.chunks.append(path)
        if oversized := staging.content():
            listing.overflow_files.append(_overflow_file_of(path))
            storage.write_bytes(_overflow_file_of(path), oversized)
        pending.clear()
        staging = OverflowRows()
        count = held = 0

    tally = Tally() if tally is None else tally
    tally.globs = set(plan.selection.globs)

    def is_wanted(sample: SampleRef) -> bool:
        tally.see(sample.key)
        setting = plan.selection.skips_path(sample.key)
        if setting is not None:
            tally.add(SKIPPED[setting], sample.key)
        return setting is None

    if plan.selection != EVERYTHING:
        samples = (sample for sample in one_by_one(samples) if is_wanted(sample))
    for refs in by_column(samples):
        refs = _read_classes(refs.published(plan.paths), plan)
        listing.count_classes(refs, plan=plan)
        sizes = listing.add(refs, plan=plan)
        ends = list(itertools.accumulate(sizes, initial=0))
        if plan.summarizes_folders:
            for key, failure in zip(refs.keys, refs.each("failure"), strict=True):
                if failure is None:
                    listing.folders.add_image(key)
        start = 0
        while start < len(refs):
            full = bisect.bisect_left(ends, ends[start] + CHUNK_BYTES - held, start + 1)
            stop = min(full, start + CHUNK_REFS - count, len(refs))
            pending += staging.take_oversized(refs.slice(start, stop), sizes[start:stop])
            count, held = count + stop - start, held + ends[stop] - ends[start]
            if count == CHUNK_REFS or held >= CHUNK_BYTES:
                write_chunk()
            start = stop
    if pending:
        write_chunk()
    if plan.summarizes_folders:
        listing.folders.merge(tally.folders)
    listing.unmatched = frozenset(tally.globs)
    return listing


def _read_classes(refs: RefColumns, plan: ListPlan) -> RefColumns:
    """Returns the references with labels in the columns with classes."""
    found = {
        name: [class_label(value, plan.missing) for value in refs.columns[name]]
        for name in plan.class_columns
        if name in refs.columns
    }
    return dataclasses.replace(refs, columns={**refs.columns, **found}) if found else refs


def _overflow_file_of(chunk: str) -> str:
    return f"{chunk.removesuffix('.refs')}.values"


def read_chunk(chunk: str, decisions: Decisions) -> Iterator[RefColumns]:
    """Yields the references of one chunk file with all decisions, without loading oversized rows.

    Args:
      chunk: the file.
      decisions: the decisions about its listing.

    Raises:
      BuildError: the file is damaged or cannot be read; a worker on another machine may not reach the output folder.
    """
    return filter(len, map(decisions.apply, _unpack_chunk(chunk)))


def _unpack_chunk(chunk: str) -> Iterator[RefColumns]:
    joined = read_shared(chunk)
    with naming_damage(chunk):
        for refs in unpack_refs(joined):
            yield name_overflow_file(refs, _overflow_file_of(chunk))


def read_light(listing: Listing) -> Iterator[RefColumns]:
    """Yields the references of a listing, without loading oversized rows; raises the errors of `read_chunk`."""
    return itertools.chain.from_iterable(read_chunk(chunk, listing.decisions) for chunk in listing.chunks)


def read_batches(listing: Listing) -> Iterator[RefColumns]:
    """Yields the references of a listing as columns.

    Raises:
      BuildError: as `read_chunk`.
    """
    return load_oversized(read_light(listing), decide=listing.decisions.apply)


def read_refs(listing: Listing) -> Iterator[SampleRef]:
    """Yields the references of a listing one by one; raises the errors of `read_chunk`."""
    return itertools.chain.from_iterable(read_batches(listing))


def write_chunk_names(listing: Listing, folder: str) -> None:
    """Writes the names of the chunk files, so that the pipeline need not hold them.

    Args:
      listing: the listing; all workers must be able to read its chunk files.
      folder: the build's folder for temporary files.
    """
    storage.write_bytes(BuildFolder(folder).chunks, msgpack.packb(listing.chunks))


def read_chunk_names(folder: str) -> Iterator[str]:
    """Yields the names of the chunk files of a build.

    Raises:
      BuildError: as `read_chunk`.
    """
    yield from msgpack.unpackb(read_shared(BuildFolder(folder).chunks))


def read_shared(path: str) -> bytes:
    """Reads a file that the launcher has written for all workers.

    Raises:
      BuildError: the file cannot be read; a worker on another machine may not reach the output folder.
    """
    try:
        return storage.read_bytes(path)
    except OSError as error:
        raise BuildError(
            f"the worker on {socket.gethostname()} cannot read {path} ({error.strerror or error}); expected an output "
            "that all workers reach under the same name, such as a bucket or a disk that is mounted everywhere"
        ) from error
