"""Lists the samples of containers, each once: a marker keeps the result for builds that resume."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable

import msgpack

from beam_tfrecords import storage
from transforms.listing.listing import Listing, ListPlan, write_listing
from transforms.sources.containers import Container, ReadContainer, Spool
from transforms.sources.source_spec import Skipped
from transforms.workspace.build_folder import BuildFolder


@dataclasses.dataclass(frozen=True)
class IndexPlan:
    """What a worker needs to know to index containers.

    Attributes:
      folder: the build's folder for temporary files.
      read: lists the samples of one container.
      listing: how samples are listed.
      max_file_size: bytes of the largest image that is read.
    """

    folder: str
    read: ReadContainer
    listing: ListPlan
    max_file_size: int


def index_container(container: Container, *, plan: IndexPlan) -> str:
    """Lists the samples of one container, unless that is done; returns the marker file."""
    marker = _marker(container, plan.folder)
    if not _is_finished(marker):
        stem = _stem(container)
        skipped = Skipped()
        with Spool(BuildFolder(plan.folder).spool, stem, most_bytes=plan.max_file_size) as spool:
            samples = plan.read(container, spool, skipped)
            listing = write_listing(
                samples, BuildFolder(plan.folder).listing, plan=plan.listing, skipped=skipped, stem=f"{stem}-"
            )
        sizes = {file: storage.stat(file).size for file in (*listing.chunks, *spool.files)}
        values = (listing.pack(), dict(skipped.counts), skipped.examples, sizes)
        storage.write_bytes(marker, msgpack.packb(values))
    return marker


def read_index_markers(containers: Iterable[Container], folder: str) -> tuple[Listing, Skipped]:
    """The samples of indexed containers, and the files that were skipped.

    Args:
      containers: as they were given to `IndexContainers`.
      folder: the build's folder for temporary files.
    """
    listing, skipped = Listing(), Skipped()
    for container in containers:
        packed, counts, examples, _ = msgpack.unpackb(storage.read_bytes(_marker(container, folder)))
        listing.merge(Listing.unpack(packed))
        skipped.merge(Skipped(Counter(counts), examples))
    return listing, skipped


def _is_finished(marker: str) -> bool:
    """Whether there is a marker, and no power cut emptied it or a file that it names."""
    if not storage.exists(marker):
        return False
    try:
        *_, sizes = msgpack.unpackb(storage.read_bytes(marker))
        return storage.have_sizes(sizes)
    except (ValueError, TypeError, AttributeError):
        return False


def _marker(container: Container, folder: str) -> str:
    return BuildFolder(folder).container(_stem(container))


def _stem(container: Container) -> str:
    return hashlib.blake2b(container.uri.encode(), digest_size=8).hexdigest()
