"""Lists the samples of each partition once. A checkpoint keeps the result for resumed builds."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgpack

from beam_tfrecords import storage
from beam_tfrecords.errors import TRIED_AGAIN, BuildError, FailureReason
from beam_tfrecords.transforms.listing.listing import (
    CHUNK_BYTES,
    CHUNK_REFS,
    Listing,
    ListPlan,
    read_shared,
    write_listing,
)
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.service_faults import PAUSES, describe_fault
from beam_tfrecords.transforms.sources.partition import Partition, ReadPartition, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import add_step
from beam_tfrecords.transforms.workspace.state_files import naming_damage

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class IndexPlan:
    """The plan for workers that list partitions.

    Attributes:
      read: lists a partition.
      run_id: as in `BlockPlan`.
      trusts_time: whether equal size and time mean an unchanged partition; otherwise every run lists it again.
      expanded: folder for compressed archives that files are read in; "" for one of this process.
    """

    folder: str
    read: ReadPartition
    listing: ListPlan
    max_file_size: int
    run_id: str = ""
    trusts_time: bool = True
    expanded: str = ""


def write_partitions(partitions: Iterable[Partition], folder: str) -> None:
    """Writes the partitions to a file, so that the pipeline need not hold them.

    Args:
      partitions: the partitions to list.
      folder: the build's folder for temporary files.
    """
    storage.write_bytes(BuildFolder(folder).containers, msgpack.packb([partition.pack() for partition in partitions]))


def read_partitions(folder: str) -> Iterator[Partition]:
    """Yields the partitions of a build.

    Raises:
      BuildError: a worker on another machine cannot read the output folder.
    """
    yield from map(Partition.unpack, msgpack.unpackb(read_shared(BuildFolder(folder).containers)))


class UnreadableError(Exception):
    """A partition of the input cannot be read or is missing; takes the arguments of an `OSError`."""


def index_partition(partition: Partition, *, plan: IndexPlan) -> str:
    """Lists the samples of one partition, unless it is finished; returns the checkpoint file.

    The checkpoint also records that a partition of the input cannot be read, because this is an error of the request.

    Raises:
      BuildError: as `read_unchanged`.
    """
    checkpoint = _checkpoint_of(partition, plan.folder)
    if not _is_finished(checkpoint, partition, plan.run_id):
        try:
            values: object = read_unchanged(partition, lambda partition: _index(partition, plan))
        except UnreadableError as error:
            values = {"unreadable": error.args}
        storage.write_bytes(checkpoint, msgpack.packb(values, unicode_errors="surrogateescape"))
    add_step(plan.folder, listed=1)
    return checkpoint


def read_unchanged(partition: Partition, read: Callable[[Partition], Result]) -> Result:
    """Reads a partition and checks that the whole result comes from one version of it.

    Retries if the partition changes while it is read, and after a service fault.

    Raises:
      BuildError: the partition changes during every attempt, or the fault persists.
    """
    for pause in (*PAUSES, None):
        try:
            result = read(partition)
            _check_version(partition)
            return result
        except storage.ChangedError as error:
            if pause is None:
                raise BuildError(
                    f"{partition.uri} changes while it is read, {len(PAUSES) + 1} times in a row; the same command "
                    "starts again when it is complete"
                ) from error
        except OSError as error:
            if not storage.is_service_fault(error):
                raise
            if pause is None:
                raise BuildError(describe_fault(partition.uri, error)) from error
        time.sleep(pause)
        if not partition.fingerprint:  # a partition of a folder
            continue
        # If the file is missing or stat fails, reading it raises the error.
        with contextlib.suppress(OSError):
            now = storage.stat(partition.uri)
            partition = dataclasses.replace(partition, size=now.size, fingerprint=now.fingerprint, version=now.version)
    raise AssertionError


def _check_version(partition: Partition) -> None:
    """Raises ChangedError if the file of a partition has been replaced."""
    if not partition.version:
        return
    try:
        storage.open_read(partition.uri, version=partition.version).close()
    except OSError as error:
        # If the file is missing, reading it raises the error.
        if isinstance(error, storage.ChangedError) or storage.is_service_fault(error):
            raise


def _index(partition: Partition, plan: IndexPlan) -> tuple[object, ...]:
    """Lists a partition; returns the content of its checkpoint."""
    stem = _stem(partition)
    tally = Tally()
    # A partition without a fingerprint, such as one read by a user's function, may have changed.
    is_known = bool(partition.fingerprint)
    run_id = "" if plan.trusts_time and is_known else plan.run_id
    names_others = False

    def watched() -> Iterator[SampleRef | RefColumns]:
        nonlocal run_id, names_others
        try:
            for ref in until_damage(plan.read(partition, tally, staging), partition, tally):
                names_others = names_others or not (partition.part or _is_within(ref, partition.uri, staging_folder))
                # References that are read as columns are never rejected.
                failure = ref.failure if isinstance(ref, SampleRef) else None
                if failure is not None and FailureReason(failure[0]) in TRIED_AGAIN:
                    run_id = plan.run_id
                yield ref
        except OSError as error:
            if partition.part and not (storage.is_service_fault(error) or isinstance(error, storage.ChangedError)):
                raise UnreadableError(error.errno, error.strerror or str(error), error.filename) from error
            # Without a name, the error would seem to come from the chunk file. Errors of stores already have one.
            if error.errno is not None:
                error.filename = error.filename or partition.uri
            raise

    staging_folder = BuildFolder(plan.folder).staging
    noted = storage.DependencyTracker(partition.uri)
    expanding = storage.expanding_into(plan.expanded)
    with (
        storage.noting_files(noted),
        expanding,
        StagingFiles(staging_folder, stem, most_bytes=plan.max_file_size) as staging,
    ):
        listing = write_listing(
            watched(), BuildFolder(plan.folder).listing, plan=plan.listing, tally=tally, stem=f"{stem}-"
        )
    listing.read_with = noted.fingerprints if is_known and not names_others else None
    if listing.read_with is None:
        run_id = plan.run_id
    # Every run reads a damaged partition again.
    run_id = plan.run_id if tally.damaged else run_id
    return _checkpoint_values(listing, tally, staging.files, run_id, partition.version)


def _checkpoint_values(
    listing: Listing, tally: Tally, staged: Iterable[str], run_id: str, version: str
) -> tuple[object, ...]:
    written = {file: _checksum(file) for file in (*listing.files, *staged)}
    return listing.pack(), tally.pack(), run_id, version, written


class BundleListing:
    """Lists the samples of one bundle of a user's pipeline; writes image bytes that they contain to staging files.

    Args:
      plan: as for partitions.
      read: as in `PipelinePartition`.
    """

    def __init__(self, plan: IndexPlan, read: Callable[[Any, StagingFiles, Tally], SampleRef]) -> None:
        self._plan = plan
        self._read = read
        # Random, because another attempt at the bundle may run at the same time.
        self._stem = uuid.uuid4().hex[:16]
        self._staging = StagingFiles(BuildFolder(plan.folder).staging, self._stem, most_bytes=plan.max_file_size)
        self._pending: list[SampleRef] = []
        self._bytes = 0
        self._listings: list[bytes] = []
        self._tally = Tally()

    def add(self, sample: Any) -> None:
        """Lists one sample.

        Raises:
          BuildError: the element is not a sample, or a service fault.
        """
        ref = self._read(sample, self._staging, self._tally)
        self._pending.append(ref)
        self._bytes += len(ref.pack())
        if len(self._pending) == CHUNK_REFS or self._bytes >= CHUNK_BYTES:
            self._write()

    def close(self) -> bytes:
        """Finishes the bundle; returns packed bytes for `join_bundles`."""
        if self._pending:
            self._write()
        with self._staging:
            pass
        packed: bytes = msgpack.packb((self._listings, self._tally.pack(), self._staging.files))
        return packed

    def _write(self) -> None:
        folder, stem = BuildFolder(self._plan.folder).listing, f"{self._stem}-{len(self._listings):06d}-"
        listing = write_listing(self._pending, folder, plan=self._plan.listing, tally=self._tally, stem=stem)
        self._listings.append(listing.pack())
        self._pending, self._bytes = [], 0


def join_bundles(bundles: Iterable[bytes], *, partition: Partition, plan: IndexPlan) -> str:
    """Writes the checkpoint of a partition that a pipeline has listed in bundles; returns the checkpoint file."""
    listing, tally, staged = Listing(read_with=None), Tally(), list[str]()
    for listings, counts, files in map(msgpack.unpackb, bundles):
        for packed in listings:
            listing.merge(Listing.unpack(packed))
        tally.merge(Tally.unpack(counts))
        staged += files
    checkpoint = _checkpoint_of(partition, plan.folder)
    storage.write_bytes(checkpoint, msgpack.packb(_checkpoint_values(listing, tally, staged, plan.run_id, "")))
    add_step(plan.folder, listed=1)
    return checkpoint


def _is_within(found: SampleRef | RefColumns, partition: str, staging_folder: str) -> bool:
    """Whether all images are in the container or in staging files."""
    each = [found.plain_images()] if isinstance(found, SampleRef) else found.each("images")
    # An image that is too large for a staging file has an empty uri.
    inside = f"{partition}#/", staging_folder
    return all(uri in (partition, "") or uri.startswith(inside) for images in each for _, uri, *_ in images.values())


def read_index_checkpoints(partitions: Iterable[Partition], folder: str) -> tuple[Listing, Tally]:
    """Returns the merged listing of partitions, and their tally.

    Raises:
      UnreadableError: a worker could not read one of them.
    """
    listing, tally = Listing(), Tally()
    for partition in partitions:
        checkpoint = _checkpoint_of(partition, folder)
        with naming_damage(checkpoint):
            values = msgpack.unpackb(storage.read_bytes(checkpoint), unicode_errors="surrogateescape")
        if isinstance(values, dict):
            raise UnreadableError(*values["unreadable"])
        with naming_damage(checkpoint):
            packed, counts, *_ = values
            listing.merge(Listing.unpack(packed))
            tally.merge(Tally.unpack(counts))
    return listing, tally


def _is_finished(checkpoint: str, partition: Partition, run_id: str) -> bool:
    """Whether a partition has a valid checkpoint: the partition and the files read with it are unchanged.

    A power loss may have damaged the checkpoint, or a file that it names.
    """
    if not storage.exists(checkpoint):
        return False
    try:
        packed, *_, indexed_by, version, written = msgpack.unpackb(storage.read_bytes(checkpoint))
        read_with = Listing.unpack(packed).read_with or {}
        _check_version(dataclasses.replace(partition, version=version))
        return (
            indexed_by in ("", run_id)
            and all(storage.find_fingerprint(file) == was for file, was in read_with.items())
            and all(_checksum(file) == was for file, was in written.items())
        )
    except (ValueError, TypeError, AttributeError, OSError):
        return False


def _checksum(file: str) -> list[int]:
    """Returns size and CRC of a file; only the size for an object in a store, since stores write objects atomically.

    Reading the file takes little time compared with decompressing the archive again.
    """
    return [storage.stat(file).size, 0 if storage.has_scheme(file) else storage.crc32c(file)]


def _checkpoint_of(partition: Partition, folder: str) -> str:
    return BuildFolder(folder).container(_stem(partition))


def _stem(partition: Partition) -> str:
    # Partitions of the same table may belong to two inputs, which differ in their key prefixes.
    values = (partition.uri, partition.key_prefix, partition.part)
    name = msgpack.packb(values, unicode_errors="surrogateescape") if partition.part else partition.uri.encode()
    return hashlib.blake2b(name, digest_size=8).hexdigest()
