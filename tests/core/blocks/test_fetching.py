"""Reading a block's images: order, reasons, limits, locators, and how much is read ahead."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gzip
import itertools
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, SampleError
from beam_tfrecords.storage.members import Place
from beam_tfrecords.transforms.refs import fetching
from beam_tfrecords.transforms.refs.fetching import fetch, read_image
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, File, Range, SampleRef, object_mask, one_image
from beam_tfrecords.transforms.service_faults import PAUSES
from tests.archive_files import write_archive
from tests.each import each

PICTURE = bytes(range(256)) * 300


def fetch_each(refs, *, max_file_size: int = 10**9, is_needed: bool = True) -> Iterator[tuple[SampleRef, Any]]:
    """Each reference with its images, or why there are none."""
    batches = RefColumns.of(refs)
    fetched = fetch(batches, needs_images=lambda refs: [is_needed] * len(refs), max_file_size=max_file_size)
    return itertools.chain.from_iterable(zip(found, images, strict=True) for found, images in fetched)


def outcomes(refs, *, max_file_size: int = 10**9) -> list:
    """The bytes, or the reason why there are none."""
    fetched = list(fetch_each(refs, max_file_size=max_file_size))
    assert [ref for ref, _ in fetched] == list(refs)
    return [data.reason if isinstance(data, SampleError) else data.get(IMAGE) for _, data in fetched]


def test_each_reference_comes_in_order_with_its_bytes_or_its_reason(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"image")
    (tmp_path / "empty.jpg").write_bytes(b"")
    refs = [
        SampleRef("a", one_image(File(str(tmp_path / "a.jpg"))), size=5),
        SampleRef("empty", one_image(File(str(tmp_path / "empty.jpg")))),
        SampleRef("missing", one_image(File(str(tmp_path / "missing.jpg"))), size=7),
        SampleRef("row", {}),
        SampleRef("rejected", {}, failure=("invalid_row", "line 3")),
    ]
    expected = [b"image", FailureReason.EMPTY, FailureReason.UNREADABLE, None, FailureReason.INVALID_ROW]
    assert outcomes(refs, max_file_size=100) == expected


def test_a_file_above_the_limit_is_rejected_unread(tmp_path):
    with (tmp_path / "huge.jpg").open("wb") as file:
        file.truncate(10**12)  # sparse: reading it would take all memory
    huge = File(str(tmp_path / "huge.jpg"))
    refs = [SampleRef("size is listed", one_image(huge), size=10**12), SampleRef("size is not", one_image(huge))]
    assert outcomes(refs) == [FailureReason.TOO_LARGE_FILE] * 2


def test_the_masks_of_an_image_share_one_limit(tmp_path):
    for number in range(10):
        (tmp_path / str(number)).write_bytes(PICTURE[:300])
    masks = {object_mask(str(number)): File(str(tmp_path / str(number))) for number in range(9)}
    ref = SampleRef("a", {IMAGE: File(str(tmp_path / "9")), **masks})
    ((_, found),) = fetch_each([ref], max_file_size=2700)
    assert len(found) == 10
    ((_, refused),) = fetch_each([ref], max_file_size=2699)
    assert refused.reason is FailureReason.TOO_LARGE_FILE


def test_a_layout_without_images_reads_none(tmp_path):
    refs = [SampleRef("a", one_image(File(str(tmp_path / "missing.jpg"))))]
    assert list(fetch_each(refs, max_file_size=1, is_needed=False)) == [(refs[0], {})]


# Members of archives


@pytest.fixture(scope="module")
def archives(tmp_path_factory) -> Path:
    """One picture in a tar archive and, stored and deflated, in a zip archive; each between other members."""
    folder = tmp_path_factory.mktemp("archives")
    before, after = {"before.txt": b"before"}, {"after.txt": b"after"}
    write_archive(folder / "photos.tar", {**before, "tar.jpg": PICTURE, **after})
    pictures = {"stored.jpg": {"stored": PICTURE}, "deflated.jpg": PICTURE}
    write_archive(folder / "photos.zip", {**before, **pictures, **after})
    return folder


def member_of(archives: Path, kind: str) -> Place:
    """The place of the picture, in an archive that may be another file by now."""
    archive = archives / ("photos.tar" if kind == "tar" else "photos.zip")
    return dataclasses.replace(Place.unpack(storage.stat(f"{archive}#/{kind}.jpg").version), version="")


def file_of(place: Place) -> File:
    return File(f"{place.file}#/cat/1.jpg", place.pack())


MEMBERS = pytest.mark.parametrize("kind", ["tar", "stored", "deflated"])


@MEMBERS
def test_a_member_of_an_archive_has_the_bytes_that_were_put_into_it(archives, kind):
    assert outcomes([SampleRef("1", one_image(file_of(member_of(archives, kind))), size=len(PICTURE))]) == [PICTURE]


@MEMBERS
def test_a_member_above_the_limit_is_rejected(archives, kind):
    refs = [SampleRef("1", one_image(file_of(member_of(archives, kind))), size=len(PICTURE))]
    assert outcomes(refs, max_file_size=len(PICTURE) - 1) == [FailureReason.TOO_LARGE_FILE]


@pytest.mark.parametrize("size", [5, len(PICTURE) + 1])
def test_a_deflated_member_of_another_size_than_it_claims_is_rejected(archives, size):
    member = dataclasses.replace(member_of(archives, "deflated"), size=size)
    assert outcomes([SampleRef("1", one_image(file_of(member)), size=size)]) == [FailureReason.CORRUPT]


@pytest.mark.parametrize("field", ["size", "stored"])
def test_a_member_that_claims_to_be_above_the_limit_is_not_read(archives, field):
    member = dataclasses.replace(member_of(archives, "deflated"), file="missing", **{field: 2000})
    refs = [SampleRef("1", one_image(file_of(member)), size=0)]
    assert outcomes(refs, max_file_size=1999) == [FailureReason.TOO_LARGE_FILE]


@MEMBERS
def test_a_member_that_its_archive_ends_within_has_changed_since_it_was_listed(archives, tmp_path, kind):
    whole = member_of(archives, kind)
    short = tmp_path / "short"
    short.write_bytes(Path(whole.file).read_bytes()[: whole.offset + whole.length - 1])
    cut = dataclasses.replace(whole, file=str(short))
    assert outcomes([SampleRef("1", one_image(file_of(cut)), size=len(PICTURE))]) == [FailureReason.CHANGED]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"stored": -5}, FailureReason.TRUNCATED),
        ({"stored": 5}, FailureReason.CORRUPT),
        ({"offset": 1, "length": -1}, FailureReason.CORRUPT),
        ({"crc": 1}, FailureReason.CORRUPT),
        ({"length": -1_000_000}, FailureReason.CORRUPT),
    ],
    ids=["cut", "into the next member", "no header", "another checksum", "no bytes"],
)
def test_a_zip_member_that_is_not_as_listed_is_rejected_with_its_reason(archives, changed, reason):
    whole = member_of(archives, "deflated")
    fields = {name: max(getattr(whole, name) + more, 9) for name, more in changed.items()}
    member = dataclasses.replace(whole, **fields)
    assert outcomes([SampleRef("1", one_image(file_of(member)), size=len(PICTURE))]) == [reason]


def test_a_zip_member_with_a_flipped_bit_is_rejected(archives, tmp_path):
    whole = member_of(archives, "stored")
    data = bytearray(Path(whole.file).read_bytes())
    data[whole.offset + 1000] ^= 1
    (tmp_path / "photos.zip").write_bytes(data)
    ref = SampleRef(
        "1", one_image(file_of(dataclasses.replace(whole, file=str(tmp_path / "photos.zip")))), size=len(PICTURE)
    )
    assert outcomes([ref]) == [FailureReason.CORRUPT]


def test_a_range_in_a_gzip_file_is_of_the_bytes_as_they_are_stored(tmp_path):
    stored = gzip.compress(PICTURE)
    (tmp_path / "photos.gz").write_bytes(stored)
    assert outcomes([SampleRef("1", one_image(Range(str(tmp_path / "photos.gz"), 3, 20, "x")))]) == [stored[3:23]]


# Files that change after they were listed


def replace_by_rename(path: Path, content: bytes) -> None:
    """Another file of the same name and time, as `rsync --times` makes it."""
    before = path.stat()
    new = path.with_name("new")
    new.write_bytes(content)
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.rename(path)


def write_in_place(path: Path, content: bytes) -> None:
    time.sleep(0.02)  # beyond the tick of the clock of the file system
    path.write_bytes(content)


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


@each("replace", [replace_by_rename, write_in_place, append])
@each("kind", ["file", "member", "cut member"])
def test_what_is_not_the_file_that_was_listed_is_rejected_as_changed(tmp_path, kind, replace):
    path = tmp_path / "file"
    path.write_bytes(PICTURE)
    version = storage.stat(str(path)).version
    length = len(PICTURE) if kind == "cut member" else 500
    locator = File(str(path), version) if kind == "file" else Range(str(path), 100, length, "file#1", version)
    ref = SampleRef("1", one_image(locator), size=len(PICTURE))
    replace(path, PICTURE[::-1])
    assert outcomes([ref]) == [FailureReason.CHANGED]


# Service faults


class FullTable:
    """No more file handles for this process, until it is closed; really."""

    def __enter__(self) -> FullTable:
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._handles = [os.open(os.devnull, os.O_RDONLY)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._handles[0] + 30, self._limits[1]))
        with contextlib.suppress(OSError):
            while True:
                self._handles.append(os.dup(self._handles[0]))
        return self

    def close(self) -> None:
        while self._handles:
            os.close(self._handles.pop())
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def photo(tmp_path) -> File:
    (tmp_path / "1.jpg").write_bytes(PICTURE)
    return File(str(tmp_path / "1.jpg"), storage.stat(str(tmp_path / "1.jpg")).version)


def test_a_service_fault_that_passes_rejects_nothing(photo, monkeypatch):
    slept = []
    with FullTable() as table:

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                table.close()

        monkeypatch.setattr(time, "sleep", sleep)
        assert read_image(photo, size=len(PICTURE), max_file_size=10**9) == PICTURE
    assert slept == sorted(slept)
    assert slept == list(PAUSES[:3])


def test_a_service_fault_that_stays_ends_the_build_and_names_file_and_fault(photo, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with FullTable(), pytest.raises(BuildError, match=r"1\.jpg cannot be read: Too many open files"):
        read_image(photo, size=len(PICTURE), max_file_size=10**9)


def test_a_file_that_says_no_size_is_read_up_to_the_limit(tmp_path, monkeypatch):
    (tmp_path / "1.jpg").write_bytes(PICTURE)
    monkeypatch.setattr(storage, "stat", lambda path: storage.FileEntry(path, 0, 0))
    ref = SampleRef("1.jpg", one_image(File(str(tmp_path / "1.jpg"))))
    assert outcomes([ref], max_file_size=len(PICTURE)) == [PICTURE]
    monkeypatch.setattr(storage, "read_bytes", pytest.fail)
    assert outcomes([ref], max_file_size=len(PICTURE) - 1) == [FailureReason.TOO_LARGE_FILE]


@each("code", [errno.EIO, errno.ESTALE, errno.ENFILE, errno.ENOMEM])
@each("known", [True, False], ids=["sizes are listed", "sizes are not"])
def test_no_fault_of_a_store_is_a_failure_of_a_sample(monkeypatch, code, known):
    def fail(*_: object, **__: str) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(time, "sleep", lambda _: None)
    for name in ("stat", "read_bytes", "read_range"):
        monkeypatch.setattr(storage, name, fail)
    with pytest.raises(BuildError, match=os.strerror(code)):
        outcomes(remote_refs({"slow://photos/1": 5}, known=known))


class SlowStore:
    """Stands in for the storage functions that fetching calls; counts requests and the bytes that are held.

    Args:
      sizes: path -> size of the file.
      seconds: that every request takes.
    """

    def __init__(self, sizes: dict[str, int], *, seconds: float = 0.02) -> None:
        self.sizes = sizes
        self.running = self.most_running = self.answered = 0
        self._seconds = seconds
        self._lock = threading.Lock()

    def stat(self, path: str) -> storage.FileEntry:
        with self._request(0):
            return storage.FileEntry(path, self.sizes[path], 0)

    def read_bytes(self, path: str, *, version: str, size: int) -> bytes:
        with self._request(self.sizes[path]):
            return bytes(self.sizes[path])

    def read_range(self, path: str, offset: int, length: int, *, version: str) -> bytes:
        size = max(0, min(length, self.sizes[path] - offset))
        with self._request(size):
            return bytes(size)

    @contextlib.contextmanager
    def _request(self, size: int) -> Iterator[None]:
        with self._lock:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        time.sleep(self._seconds)
        with self._lock:
            self.running -= 1
            self.answered += size
        yield


@pytest.fixture
def slow_store(monkeypatch) -> Callable[..., SlowStore]:
    def make(sizes: dict[str, int], **options: float) -> SlowStore:
        store = SlowStore(sizes, **options)
        for name in ("stat", "read_bytes", "read_range"):
            monkeypatch.setattr(storage, name, getattr(store, name))
        return store

    return make


def remote_refs(sizes: dict[str, int], *, known: bool) -> list[SampleRef]:
    return [SampleRef(path, one_image(File(path)), size if known else 0) for path, size in sizes.items()]


@pytest.mark.parametrize("known", [True, False], ids=["sizes are listed", "sizes are not"])
def test_remote_files_are_read_several_at_once_past_a_rejected_sample(slow_store, known):
    sizes = {f"slow://photos/{number}": 20_000 for number in range(48)}
    store = slow_store(sizes, seconds=0.2)
    refs = remote_refs(sizes, known=known)
    # Rejected samples and rows without images have nothing to read, and nobody has to wait for them.
    for place in (40, 30, 20, 10):
        refs.insert(place, SampleRef(f"rejected {place}", {}, failure=("invalid_row", "line 3")))
        refs.insert(place, SampleRef(f"row {place}", {}))
    running = []
    expected = {ref.key: FailureReason.INVALID_ROW if ref.failure else ref.locator and bytes(20_000) for ref in refs}
    for ref, data in fetch_each(refs):
        assert expected[ref.key] == (data.reason if isinstance(data, SampleError) else data.get(IMAGE))
        if ref.key.startswith(("rejected", "row")):
            running.append(store.running)
    assert store.most_running >= 16
    # A rejected sample is handed out while the files behind it are being read; a busy machine may hand some out late.
    assert any(running)


@pytest.mark.parametrize(("latency", "conversion"), [(0.001, 0.01), (0.1, 0.0)], ids=["slow conversion", "slow store"])
def test_more_files_are_read_at_once_while_the_store_is_slower_than_the_conversion(slow_store, latency, conversion):
    sizes = {f"slow://photos/{number}": 1000 for number in range(320)}
    store = slow_store(sizes, seconds=latency)
    for _ in fetch_each(remote_refs(sizes, known=True)):
        time.sleep(conversion)
    # A busy machine may start fewer than all threads.
    assert (store.most_running > 40) is (latency > conversion)


@pytest.mark.parametrize("size", [100_000, 5 << 20, 40 << 20], ids=["small", "medium", "larger than the budget"])
def test_remote_files_of_unknown_size_are_held_within_the_budget(slow_store, size):
    sizes = {f"slow://photos/{number}": size for number in range(32)}
    store = slow_store(sizes, seconds=0.005)
    most_held = 0
    for number, (_, data) in enumerate(fetch_each(remote_refs(sizes, known=False))):
        assert data[IMAGE] == bytes(size)
        time.sleep(0.01)  # the rest is read meanwhile
        # Whatever was answered and not yet handed out is held; heads of files that are read again count, too.
        most_held = max(most_held, held_bytes(store, number + 1, size))
    assert most_held <= fetching._AHEAD_BYTES


def held_bytes(store: SlowStore, handed_out: int, size: int) -> int:
    head = min(size, fetching._HEAD_BYTES)
    # A file above the head is read twice: its head, and then the whole of it when it is its turn.
    whole = size if size < fetching._HEAD_BYTES else size + head
    return store.answered - handed_out * whole


def test_remote_files_of_known_size_are_held_within_the_budget(slow_store):
    size = 5 << 20
    sizes = {f"slow://photos/{number}": size for number in range(32)}
    store = slow_store(sizes, seconds=0.001)
    held = []
    for number, _ in enumerate(fetch_each(remote_refs(sizes, known=True))):
        time.sleep(0.01)
        held.append(store.answered - (number + 1) * size)
    assert size <= max(held) <= fetching._AHEAD_BYTES


def test_a_remote_file_above_the_limit_is_rejected_after_its_first_bytes(slow_store):
    sizes = {"slow://photos/1": 10**15, "slow://photos/2": 2_000, "slow://photos/3": 1_000}
    store = slow_store(sizes)
    reasons = [FailureReason.TOO_LARGE_FILE, FailureReason.TOO_LARGE_FILE, bytes(1_000)]
    assert outcomes(remote_refs(sizes, known=False), max_file_size=1_500) == reasons
    assert outcomes(remote_refs(sizes, known=True), max_file_size=1_500) == reasons
    assert store.answered < 3 * fetching._HEAD_BYTES


@pytest.mark.parametrize("known", [True, False], ids=["sizes are listed", "sizes are not"])
def test_a_store_that_does_not_answer_ends_the_build(monkeypatch, known):
    def fail(*_: object, **__: str) -> bytes:
        raise BuildError("slow://photos does not answer")

    for name in ("stat", "read_bytes", "read_range"):
        monkeypatch.setattr(storage, name, fail)
    with pytest.raises(BuildError, match="does not answer"):
        outcomes(remote_refs({"slow://photos/1": 10}, known=known))


@pytest.mark.parametrize("scheme", ["", "slow://"], ids=["local", "remote"])
@pytest.mark.parametrize("known", [True, False], ids=["size is listed", "size is not"])
def test_an_unexpected_exception_while_reading_rejects_one_sample(monkeypatch, scheme, known):
    def fail(path: str, *_: int, version: str, size: int = 0) -> bytes:
        if path.endswith("bad"):
            raise ZeroDivisionError("a bug in a client library")
        return b"image"

    for name in ("read_bytes", "read_range"):
        monkeypatch.setattr(storage, name, fail)
    monkeypatch.setattr(storage, "stat", lambda path: storage.FileEntry(path, 5, 0))
    refs = remote_refs({f"{scheme}/photos/{name}": 5 for name in ("1", "bad", "2")}, known=known)
    assert outcomes(refs) == [b"image", FailureReason.INTERNAL_ERROR, b"image"]
