"""Lists the samples of an input once, in this process or from the checkpoints of workers."""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.listing.finish_listing import finish_listing, plan_listing
from beam_tfrecords.beam_pipelines.build.listing.source_opening import check_source
from beam_tfrecords.dataset.published_paths import PublishedPaths
from beam_tfrecords.errors import RequestError
from beam_tfrecords.storage.opened import MOST_NOTED
from beam_tfrecords.transforms.listing.indexing import (
    IndexPlan,
    UnreadableError,
    index_partition,
    read_index_checkpoints,
)
from beam_tfrecords.transforms.listing.listing import Listing, write_listing
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.partition import WHOLE, Partition, StagingFiles
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

Cut: TypeAlias = Callable[[int], Sequence[Partition]]


@dataclasses.dataclass(frozen=True)
class ListedInput:
    """A listed input.

    Attributes:
      fingerprint: fingerprint of the input, for the manifest.
      listing: its samples, with their final labels and splits.
      tally: counts and notes of the listing.
      source: the source, with what the listing shows in its description.
      folder: folder below the output with the chunk files; None if they are local.
      read_with: `Listing.read_with` with published paths, for the manifest; None if unknown.
    """

    fingerprint: str
    listing: Listing
    tally: Tally
    source: Source
    folder: str | None = None
    read_with: Mapping[str, str] | None = None


def list_input(
    spec: BuildSpec, source: Source, folder: str, *, max_file_size: int, most: int | None = None
) -> ListedInput:
    """Lists an input in this process, for callers that build nothing; writes nothing outside the folder.

    Args:
      spec: the request, with its layout.
      source: the opened source.
      folder: folder for chunk files and copies.
      max_file_size: as in `IndexPlan`.
      most: number of samples of a whole after which the listing ends; None lists all.

    Raises:
      RequestError: the input cannot be read, or does not fit the request.
      BuildError: a service fault.
      CutError: the input has more samples.
    """
    check_source(spec, source)
    if source.is_whole:
        cut = None if most is None else lambda count: [WHOLE] if count > most else []
        return list_here(spec, source, BuildFolder(folder).listing, cut=cut)
    plan = plan_index(spec, source, folder, max_file_size=max_file_size)
    for partition in source.partitions:
        index_partition(partition, plan=plan)
    return collect_listing(spec, source, folder, source.partitions)


def list_here(spec: BuildSpec, source: Source, folder: str, *, cut: Cut | None = None) -> ListedInput:
    """Lists a whole in this process.

    Args:
      spec: the request, with its layout.
      source: the opened source.
      folder: folder for chunk files.
      cut: number of samples so far -> partitions that end this listing, or none to go on.

    Raises:
      RequestError, BuildError: as `list_input`.
      CutError: `cut` has ended the listing.
    """

    def attempt() -> tuple[Listing, Tally]:
        tally = Tally()
        with StagingFiles(folder, "whole") as staging:
            samples = source.read(WHOLE, tally, staging)
            refs = samples if cut is None else _until_cut(cut, samples)
            return write_listing(refs, folder, plan=plan_listing(spec, source), tally=tally), tally

    # Listing creates no reference cycles, and searching all modules for them would take a fifth of its time.
    gc.freeze()
    try:
        listing, tally = retry_faults(", ".join(spec.input), attempt)
    except OSError as error:
        raise _unreadable_input(error, spec, source) from error
    finally:
        gc.unfreeze()
    listing, source = finish_listing(listing, spec, source, tally, folder)
    return ListedInput(listing.fingerprint, listing, tally, source)


class CutError(Exception):
    """The listing of a whole has ended early: workers list it faster, or it has more samples than are wanted.

    Attributes:
      partitions: partitions of the input.
    """

    def __init__(self, partitions: Sequence[Partition]) -> None:
        super().__init__()
        self.partitions = partitions


def _until_cut(cut: Cut, samples: Iterable[SampleRef | RefColumns]) -> Iterator[SampleRef | RefColumns]:
    """Yields the samples of a whole, until it is cut.

    Raises:
      CutError: it is cut.
    """
    count = 0
    for sample in itertools.chain([None], samples):
        if sample is not None:
            count += len(sample) if isinstance(sample, RefColumns) else 1
        if partitions := cut(count):
            raise CutError(partitions)
        if sample is not None:
            yield sample


def plan_index(
    spec: BuildSpec, source: Source, folder: str, *, max_file_size: int, trusts_time: bool = False
) -> IndexPlan:
    """Plans how workers list partitions.

    Args:
      spec: the request, with its layout.
      source: the opened source.
      folder: folder of the listing.
      max_file_size: as in `IndexPlan`.
      trusts_time: likewise.
    """
    return IndexPlan(
        folder,
        source.for_workers(),
        plan_listing(spec, source),
        max_file_size,
        run_id=uuid.uuid4().hex,
        trusts_time=trusts_time,
        expanded=storage.expansion_folder(),
    )


def collect_listing(spec: BuildSpec, source: Source, folder: str, partitions: Iterable[Partition]) -> ListedInput:
    """Collects the listing of an input from the checkpoints of its partitions, whoever wrote them.

    Args:
      spec: the request, with its layout.
      source: the opened source.
      folder: folder of the listing.
      partitions: the partitions.

    Raises:
      RequestError: a partition cannot be read, or the input does not fit the request.
      BuildError: a service fault.
    """
    try:
        listing, tally = read_index_checkpoints(partitions, folder)
    except UnreadableError as error:
        raise _unreadable_input(OSError(*error.args), spec, source) from error
    read_with = _find_read_with(listing, source)
    listing, source = finish_listing(listing, spec, source, tally, BuildFolder(folder).listing)
    if source.is_whole:
        return ListedInput(listing.fingerprint, listing, tally, source, folder)
    paths = spec.published_paths
    identity = identify_partitions(source.partitions, source.read_with, paths)
    # If the files beside the containers are unknown, only the listing shows whether something has changed.
    fingerprint = identity if read_with is not None else f"{identity}-{listing.fingerprint}"
    published = None if read_with is None else publish_names(read_with, paths)
    return ListedInput(fingerprint, listing, tally, source, folder, published)


def _unreadable_input(error: OSError, spec: BuildSpec, source: Source) -> RequestError:
    return RequestError(
        f"`input={', '.join(spec.input)}`: {error.filename or source.name} cannot be read: "
        f"{error.strerror or error}; make it readable, or take it out of the input",
        code="unreadable_input",
    )


def identify_partitions(
    partitions: Sequence[Partition], read_with: Mapping[str, str] | None, paths: PublishedPaths
) -> str:
    """Returns a fingerprint of the partitions, and of the files that were opened to find out how to read them."""
    # Without the version: on some mounts, another run sees another inode, but must still resume.
    packed = [dataclasses.replace(one, uri=paths.publish(one.uri), version="", split=None).pack() for one in partitions]
    # With too many files, changes cannot be detected.
    beside = uuid.uuid4().hex if read_with is None else repr(sorted(publish_names(read_with, paths).items()))
    return hashlib.blake2b(b"".join([*packed, beside.encode(errors="surrogateescape")]), digest_size=16).hexdigest()


def publish_names(read_with: Mapping[str, str], paths: PublishedPaths) -> dict[str, str]:
    """Returns file -> fingerprint with the published paths of the files."""
    return {paths.publish(file): fingerprint for file, fingerprint in read_with.items()}


def _find_read_with(listing: Listing, source: Source) -> Mapping[str, str] | None:
    """Returns `Listing.read_with` without the files that the fingerprint covers; None if there are too many."""
    if listing.read_with is None:
        return None
    known = source.read_with or {}
    others = {file: found for file, found in sorted(listing.read_with.items()) if file not in known}
    return others if len(others) <= MOST_NOTED else None
