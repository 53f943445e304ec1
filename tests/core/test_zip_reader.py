"""Zip archives as a source: every way of writing them, odd names, and members that are refused."""

from __future__ import annotations

import io
import os
import random
import shutil
import struct
import subprocess
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterable

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.storage import members
from beam_tfrecords.transforms.refs.fetching import read_image
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.tally import Tally
from tests.core.opened_sources import list_archive, open_source

METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]


class Stream(io.RawIOBase):
    """A file that cannot seek: sizes are then written behind the members, in data descriptors."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.data += data
        return len(data)


def bytes_of(name: str) -> bytes:
    return f"bytes of {name} ".encode("utf-8", "surrogateescape") * 20


def zip_of(*names: str, method: int = zipfile.ZIP_DEFLATED, file: io.RawIOBase | None = None, zip64=False) -> bytes:
    file = file or io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as written:
        for name in names:
            with written.open(name, "w", force_zip64=zip64) as member:
                member.write(bytes_of(name))
    return bytes(file.data) if isinstance(file, Stream) else file.getvalue()


@pytest.fixture
def read(tmp_path) -> Callable[..., tuple[list[SampleRef], tuple[str, str] | None, Tally]]:
    """Reads an archive of these bytes: its samples, the failure of the archive if there is one, what is skipped."""

    def run(data: bytes):
        path = tmp_path / "a.zip"
        path.write_bytes(data)
        tally = Tally()
        with StagingFiles(str(tmp_path / "staging"), "a") as staging:
            samples = list(list_archive(Partition.of(storage.stat(str(path)), key_prefix=""), staging, tally))
        assert not (tmp_path / "staging").exists()
        failure = samples.pop().failure if samples and samples[-1].key == "a.zip" else None
        return samples, failure, tally

    return run


def content(sample: SampleRef) -> bytes | SampleError:
    return read_image(sample.locator, size=sample.size, max_file_size=10**6)


def reason_of(sample: SampleRef) -> FailureReason:
    found = content(sample)
    assert isinstance(found, SampleError)
    return found.reason


def check(read, data: bytes, *names: str) -> None:
    samples, failure, _ = read(data)
    assert failure is None
    assert [sample.key for sample in samples] == list(names)
    assert [content(sample) for sample in samples] == [bytes_of(name) for name in names]
    assert [sample.size for sample in samples] == [len(bytes_of(name)) for name in names]


NAMES = ("cat/1.jpg", "cat/2.jpg", "dog/3.PNG")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["plain", "streamed", "zip64", "prefixed", "with comment"])
def test_members_have_the_bytes_that_were_put_into_them(read, method, kind):
    data = zip_of(*NAMES, method=method, file=Stream() if kind == "streamed" else None, zip64=kind == "zip64")
    if kind == "prefixed":
        data = b"#!/bin/sh\nexit 0\n" + data
    if kind == "with comment":
        data = data[:-2] + struct.pack("<H", 60_000) + b"PK\x05\x06".ljust(60_000, b"x")
    check(read, data, *NAMES)


@pytest.mark.parametrize("prefix", [b"", b"exe" * 100])
def test_an_archive_with_a_64_bit_directory_is_read(read, monkeypatch, prefix):
    # As if the directory began behind 4 GB, or had more than 65,535 entries.
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    data = zip_of(*NAMES, zip64=True)
    assert data.count(b"PK\x06\x06") == data.count(b"PK\x06\x07") == 1
    check(read, prefix + data, *NAMES)


@pytest.mark.skipif(shutil.which("zip") is None, reason="needs Info-ZIP's zip")
@pytest.mark.parametrize("options", [["-0"], ["-9"], ["-fd"], ["-fz"]], ids=" ".join)
def test_an_archive_by_info_zip_is_read(read, tmp_path, options):
    names = [*NAMES, "é/4.jpg"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes_of(name))
    subprocess.run(["zip", "-q", *options, "b.zip", *names], cwd=tmp_path, check=True)
    check(read, (tmp_path / "b.zip").read_bytes(), *names)


def test_members_beyond_4_gb_are_read(tmp_path):
    path = tmp_path / "a.zip"
    with path.open("wb") as file:
        file.truncate(5 << 30)  # a hole
        file.seek(5 << 30)
        with zipfile.ZipFile(file, "a") as written:
            written.writestr("cat/1.jpg", bytes_of("cat/1.jpg"))
    if path.stat().st_blocks * 512 > 1 << 20:
        pytest.skip("the disk keeps no holes")
    (sample,) = list_archive(
        Partition.of(storage.stat(str(path)), key_prefix=""), StagingFiles(str(tmp_path), "a"), Tally()
    )
    assert storage.Place.unpack(sample.locator.version).offset >= 5 << 30
    assert content(sample) == bytes_of("cat/1.jpg")


def test_a_directory_in_another_order_than_the_members_is_read(read):
    data = zip_of(*NAMES)
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    size = (end - start) // 3
    entries = [data[start + number * size : start + (number + 1) * size] for number in range(3)]
    check(read, data[:start] + b"".join(entries[::-1]) + data[end:], *NAMES[::-1])


def test_locators_name_the_member_and_nothing_but_the_directory_is_read(read, tmp_path):
    data = zip_of(*NAMES)
    start = data.index(b"PK\x01\x02")
    samples, failure, _ = read(bytes(start) + data[start:])
    assert failure is None
    assert [sample.uri for sample in samples] == [f"{tmp_path}/a.zip#{name}" for name in NAMES]
    assert len({sample.fingerprint for sample in samples}) == 3
    assert {reason_of(sample) for sample in samples} == {FailureReason.CORRUPT}


# Names


def test_names_that_lead_out_of_the_archive_become_relative_keys(read):
    samples, _, _ = read(zip_of("/abs/1.jpg", "../../up/2.jpg", "./dot/3.jpg", "a/../b/4.jpg"))
    assert [sample.key for sample in samples] == ["abs/1.jpg", "up/2.jpg", "dot/3.jpg", "b/4.jpg"]


def renamed(data: bytes, old: bytes, new: bytes, *, system: int = 3, flags: int = 0) -> bytes:
    """The archive with another name of the same length, in the directory with this system and these flags."""
    assert len(old) == len(new)
    data = bytearray(data.replace(old, new))
    at = data.index(b"PK\x01\x02")
    data[at + 5] = system
    data[at + 8 : at + 10] = struct.pack("<H", flags)
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "system", "flags", "key"),
    [
        ("é/01.jpg".encode(), 3, 0, "é/01.jpg"),  # macOS
        ("é/01.jpg".encode(), 0, 1 << 11, "é/01.jpg"),
        (b"\x82/001.jpg", 0, 0, "é/001.jpg"),  # DOS
        (b"\xff/001.jpg", 3, 1 << 11, "\\xff/001.jpg"),
        (b"c\\001.jpg", 0, 0, "c/001.jpg"),  # .NET
        (b"c\\001.jpg", 3, 0, "c/001.jpg"),
        (b"c/1.jpg\0x", 3, 0, "c/1.jpg"),
    ],
)
def test_names_of_other_systems_are_read(read, name, system, flags, key):
    ((sample,), _, _) = read(renamed(zip_of("n" * 9), b"n" * 9, name, system=system, flags=flags))
    assert (sample.key, content(sample)) == (key, bytes_of("n" * 9))


def test_the_unicode_name_of_info_zip_counts(read):
    file = io.BytesIO()
    member = zipfile.ZipInfo("cat/_.jpg")
    unicode_name = "cat/猫.jpg".encode()
    field = struct.pack("<BL", 1, zlib.crc32(b"cat/_.jpg")) + unicode_name
    member.extra = struct.pack("<2H", 0x7075, len(field)) + field
    with zipfile.ZipFile(file, "w") as written:
        written.writestr(member, b"bytes")
    ((sample,), _, _) = read(file.getvalue())
    assert (sample.key, content(sample)) == ("cat/猫.jpg", b"bytes")


# What cannot be read


@pytest.mark.parametrize("data", [b"", b"no archive", b"no archive" * 9000, zip_of(*NAMES)[:-30]])
def test_a_file_that_is_not_a_zip_archive_is_truncated(read, data):
    assert read(data)[1][0] == "truncated"


def test_a_part_of_a_split_archive_is_refused_with_what_to_do(read):
    data = bytearray(zip_of(*NAMES))
    data[data.index(b"PK\x05\x06") + 4] = 2
    assert "join them first: zip -s 0" in read(bytes(data))[1][1]


def test_an_archive_that_goes_missing_is_unreadable(tmp_path):
    (tmp_path / "a.zip").write_bytes(zip_of(*NAMES))
    source = open_source(tmp_path / "a.zip", source="zip")
    (archive,) = source.partitions
    (tmp_path / "a.zip").unlink()
    (sample,) = until_damage(source.read(archive, Tally(), StagingFiles("", "")), archive, Tally())
    assert sample.failure == ("unreadable", "No such file or directory")


def test_a_damaged_directory_gives_the_samples_before_the_damage(read):
    data = bytearray(zip_of(*NAMES))
    at = data.rindex(b"PK\x01\x02")
    data[at] ^= 1
    samples, failure, _ = read(bytes(data))
    assert [content(sample) for sample in samples] == [bytes_of(name) for name in NAMES[:2]]
    assert failure == (
        "corrupt",
        f"the archive is damaged: there is no entry of the directory at byte {at:,}, where one should be",
    )


def test_a_directory_of_another_length_than_it_says_is_corrupt(read):
    data = bytearray(zip_of(*NAMES))
    data[data.index(b"PK\x05\x06") + 10] = 4
    samples, failure, _ = read(bytes(data))
    assert len(samples) == 3
    assert failure == ("corrupt", "the archive is damaged: its directory has 3 entries and says 4")


def test_members_that_overlap_are_corrupt(read):
    data = bytearray(zip_of("cat/1.jpg", "cat/2.jpg", method=zipfile.ZIP_STORED))
    second = data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = struct.pack("<L", 40)
    samples, failure, _ = read(bytes(data))
    assert failure is None
    assert [reason_of(sample) for sample in samples] == [FailureReason.CORRUPT] * 2


def test_an_archive_that_is_replaced_is_changed(read, tmp_path):
    samples, _, _ = read(zip_of(*NAMES))
    os.rename(tmp_path / "a.zip", tmp_path / "b.zip")
    (tmp_path / "a.zip").write_bytes(zip_of(*NAMES[::-1]))
    assert {reason_of(sample) for sample in samples} == {FailureReason.CHANGED}


# Bombs, memory and any damage


def zeros(sizes: Iterable[int]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as written:
        for number, size in enumerate(sizes):
            written.writestr(f"cat/{number}.jpg", bytes(size))
    return file.getvalue()


def test_a_bomb_is_listed_up_to_a_multiple_of_its_size(read, monkeypatch):
    monkeypatch.setattr(members, "FREE_BYTES", 1 << 18)
    data = zeros([1 << 16] * 1000)
    samples, failure, _ = read(data)
    detail = (
        f"the archive of {len(data):,} bytes expands to more than 100 times its size; if this is intended, extract it"
    )
    assert failure == ("too_large_file", detail)
    assert len(samples) == 100 * len(data) >> 16


def test_many_entries_of_one_member_are_a_bomb(read, monkeypatch):
    monkeypatch.setattr(members, "FREE_BYTES", 1 << 20)
    data = zeros([1 << 20])
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    tail = bytearray(data[end:])
    tail[8:12] = struct.pack("<2H", 500, 500)
    tail[12:16] = struct.pack("<L", 500 * (end - start))
    samples, failure, _ = read(data[:start] + data[start:end] * 500 + bytes(tail))
    assert failure is not None
    assert failure[0] == "too_large_file"
    assert len(samples) < 10


@pytest.mark.nightly
def test_many_members_take_the_memory_of_a_few(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as written:
        for number in range(30_000):
            written.writestr(f"cat/{number}.jpg", b"x")
    container = Partition.of(storage.stat(str(path)), key_prefix="")
    tracemalloc.start()
    assert sum(1 for _ in list_archive(container, StagingFiles(str(tmp_path), "a"), Tally())) == 30_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_500_000


def test_any_damage_gives_known_reasons_and_no_exception(read):
    seed = 11
    noise = random.Random(seed)
    names = ["1.jpg", f"{'x' * 80}/{'y' * 90}.jpg", "é/2.jpg", "3.jpg"]
    archives = [zip_of(*names, method=method, file=file) for method in METHODS for file in (None, Stream())]
    allowed = {FailureReason.TRUNCATED, FailureReason.CORRUPT, FailureReason.UNSUPPORTED_FORMAT}
    for _ in range(300):
        data = bytearray(noise.choice(archives))
        for _ in range(noise.randint(1, 4)):
            # Mostly in the directory.
            start = noise.randrange(len(data)) if noise.random() < 0.3 else len(data) - 1 - noise.randrange(600)
            data[start : start + noise.choice([0, 1, 8])] = noise.randbytes(noise.choice([0, 1, 8]))
        samples, failure, _ = read(bytes(data))
        assert failure is None or FailureReason(failure[0]) in (*allowed, FailureReason.TOO_LARGE_FILE), seed
        for sample in samples:
            found = content(sample) if sample.failure is None else None
            if isinstance(found, SampleError):
                assert found.reason in (*allowed, FailureReason.TOO_LARGE_FILE, FailureReason.EMPTY), seed
            elif found is not None:
                assert found in [bytes_of(name) for name in names], seed
