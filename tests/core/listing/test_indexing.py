"""Containers that change while they are read, stores that fail meanwhile, and temporary files that are damaged."""

from __future__ import annotations

import dataclasses
import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import storage
from beam_tfrecords.dataset.index import INDEX_SCHEMA
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.listing import indexing
from beam_tfrecords.transforms.listing.decisions import UNDECIDED
from beam_tfrecords.transforms.listing.indexing import IndexPlan, index_partition, read_index_checkpoints
from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_chunk, read_refs, write_listing
from beam_tfrecords.transforms.parts import Part, read_index
from beam_tfrecords.transforms.publishing.changes import _collect_keys
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, one_by_one
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.partition import Partition, ReadPartition, StagingFiles
from beam_tfrecords.transforms.sources.tally import Tally
from tests.archive_files import write_archive
from tests.core.opened_sources import open_source

PLAN = ListPlan()


def read_tar(path: Path | str) -> ReadPartition:
    return open_source(path, source="tar").read


def write_tar(path: Path, images: dict[str, bytes]) -> None:
    """Replaces an archive at once; compressed by its name."""
    new = path.with_name(f"new{''.join(path.suffixes)}")
    write_archive(new, {f"cat/{name}.jpg": data for name, data in images.items()})
    new.rename(path)


OLD = {str(number): f"old {number} ".encode() * 9 for number in range(5)}
NEW = {str(number): f"new {number} ".encode() * 9 for number in range(9, 2, -1)}


@dataclasses.dataclass(frozen=True)
class Hooked:
    """Reads a tar archive, and does something after its third sample at every attempt."""

    meanwhile: Callable[[], None]

    def __call__(self, container: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        for number, ref in enumerate(one_by_one(read_tar(container.uri)(container, tally, staging))):
            if number == 2:
                self.meanwhile()
            yield ref


def container_of(path: Path) -> Partition:
    return Partition.of(storage.stat(str(path)), key_prefix="")


def index(path: Path, meanwhile: Callable[[], None]) -> Listing:
    container = container_of(path)
    plan = IndexPlan(str(path.parent / "build"), Hooked(meanwhile), PLAN, 10**9)
    index_partition(container, plan=plan)
    return read_index_checkpoints([container], plan.folder)[0]


def images_of(listing: Listing) -> dict[str, bytes]:
    refs = list(read_refs(listing))
    assert all(ref.failure is None for ref in refs)
    return {Path(ref.key).stem: storage.read_bytes(ref.locator.uri, version=ref.locator.version) for ref in refs}


@pytest.fixture(params=["photos.tar", "photos.tar.gz"])
def archive(request, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(indexing, "PAUSES", (0.01, 0.02))
    write_tar(tmp_path / request.param, OLD)
    return tmp_path / request.param


def test_an_archive_that_is_replaced_while_it_is_read_is_read_again_and_never_mixed(archive):
    def replace() -> None:
        if images:
            write_tar(archive, images.pop())

    images = [NEW]
    assert images_of(index(archive, replace)) == NEW


def test_an_archive_that_is_written_in_place_while_it_is_read_is_read_again(archive):
    write_tar(archive.with_name(f"other{''.join(archive.suffixes)}"), NEW)
    other = archive.with_name(f"other{''.join(archive.suffixes)}").read_bytes()

    def overwrite() -> None:
        time.sleep(0.02)  # beyond the tick of the clock of the file system
        if archive.read_bytes() != other:
            archive.write_bytes(other)

    assert images_of(index(archive, overwrite)) == NEW


def test_an_archive_that_changes_at_every_attempt_ends_the_build(archive):
    count = iter(range(100))

    def replace() -> None:
        write_tar(archive, {**OLD, str(next(count)): b"another"})

    with pytest.raises(BuildError, match=rf"{archive} changes while it is read, 3 times in a row"):
        index(archive, replace)


@pytest.mark.parametrize("faults", [2, 3])
def test_a_service_fault_is_not_the_fault_of_the_archive(archive, faults):
    left = iter(range(faults))

    def fail() -> None:
        if next(left, None) is not None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    if faults == 2:
        assert images_of(index(archive, fail)) == OLD
    else:
        with pytest.raises(
            BuildError, match=rf"{archive} cannot be read: Input/output error; once this is fixed, the same command"
        ):
            index(archive, fail)


def test_an_archive_that_could_not_be_read_is_read_again_by_the_next_launch(archive):
    container = container_of(archive)
    plan = IndexPlan(str(archive.parent / "build"), read_tar(archive), PLAN, 10**9, run_id="first")
    archive.rename(archive.with_name("away"))
    checkpoint = Path(index_partition(container, plan=plan))
    first = checkpoint.read_bytes()
    archive.with_name("away").rename(archive)
    index_partition(container, plan=plan)
    assert checkpoint.read_bytes() == first
    index_partition(container, plan=dataclasses.replace(plan, run_id="second"))
    assert images_of(read_index_checkpoints([container], plan.folder)[0]) == OLD


def test_a_checkpoint_of_another_version_of_an_archive_is_not_taken(archive):
    plan = IndexPlan(str(archive.parent / "build"), read_tar(archive), PLAN, 10**9)
    index_partition(container_of(archive), plan=plan)
    write_tar(archive, NEW)
    index_partition(container_of(archive), plan=plan)
    assert images_of(read_index_checkpoints([container_of(archive)], plan.folder)[0]) == NEW


def test_a_damaged_container_is_read_again_by_the_next_launch_and_not_within_one(archive):
    cut(archive)
    plan = IndexPlan(str(archive.parent / "build"), read_tar(archive), PLAN, 10**9, run_id="first")
    container = container_of(archive)
    checkpoint = Path(index_partition(container, plan=plan))
    written = checkpoint.stat().st_mtime_ns
    index_partition(container, plan=plan)
    assert checkpoint.stat().st_mtime_ns == written
    _, tally = read_index_checkpoints([container], plan.folder)
    (damage,) = tally.damaged
    assert damage.uri == str(archive)
    assert "ends at byte" in damage.detail
    index_partition(container, plan=dataclasses.replace(plan, run_id="second"))
    assert checkpoint.stat().st_mtime_ns != written


# Temporary files


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def test_a_damaged_chunk_is_named(tmp_path):
    refs = [SampleRef(f"cat/{number}.jpg", {}) for number in range(100)]
    (chunk,) = write_listing(refs, str(tmp_path), plan=PLAN).chunks
    cut(Path(chunk))
    with pytest.raises(BuildError, match=rf"{chunk} is damaged \(.*\); delete it and run the same command again"):
        list(read_chunk(chunk, UNDECIDED))


def fail(_: RefColumns) -> None:
    raise ValueError("mine")


def test_what_the_reader_of_a_chunk_raises_is_not_taken_for_damage(tmp_path):
    (chunk,) = write_listing([SampleRef("1", {})], str(tmp_path), plan=PLAN).chunks
    with pytest.raises(ValueError, match="mine"):
        list(map(fail, read_chunk(chunk, UNDECIDED)))


def test_a_damaged_checkpoint_of_a_container_is_named(tmp_path):
    write_tar(tmp_path / "photos.tar", OLD)
    container = container_of(tmp_path / "photos.tar")
    plan = IndexPlan(str(tmp_path / "build"), read_tar(tmp_path / "photos.tar"), PLAN, 10**9)
    checkpoint = index_partition(container, plan=plan)
    cut(Path(checkpoint))
    with pytest.raises(BuildError, match=rf"{checkpoint} is damaged"):
        read_index_checkpoints([container], plan.folder)


def test_a_damaged_list_of_changes_is_named(tmp_path):
    (tmp_path / "changes.jsonl").write_text('{"change": "added", "key": "1"}\n{"change": "ad')
    with pytest.raises(BuildError, match=rf"{tmp_path}/changes.jsonl is damaged"):
        _collect_keys([str(tmp_path / "changes.jsonl")])


@pytest.mark.parametrize("size", [0, 10, 500])
def test_a_damaged_index_of_a_part_is_named(tmp_path, size):
    index = tmp_path / "part.parquet"
    pq.write_table(pa.table({name: [] for name in INDEX_SCHEMA.names}, schema=INDEX_SCHEMA), index)
    os.truncate(index, size)
    part = Part("train", 0, 0, str(tmp_path / "part"), bytes=0, stream_bytes=0, records=0, crc32c=0, index=str(index))
    with pytest.raises(BuildError, match=rf"{index} is damaged"):
        read_index(part)
