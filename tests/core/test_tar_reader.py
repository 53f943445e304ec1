"""Damaged archives: the samples before the damage, and one rejected sample for the archive."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import os
import random
import tarfile
import tracemalloc

import pytest
import zstandard

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.tally import Tally
from tests.core.opened_sources import list_archive, open_source

COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": functools.partial(lzma.compress, preset=0),
    "zst": zstandard.compress,
}
SIZE = 1000  # bytes of a member; with its header it takes three blocks


def tar_of(*names: str, size: int = SIZE, **options) -> bytes:
    file = io.BytesIO()
    # Random bytes, so that a compressed archive is about as long.
    noise = random.Random(1)
    with tarfile.open(fileobj=file, mode="w", **options) as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(noise.randbytes(size)))
    return file.getvalue()


@pytest.fixture
def read(tmp_path):
    """Reads an archive of these bytes; returns the keys of the samples, and the failure if there is one."""

    def run(data: bytes):
        path = tmp_path / "a.tar"
        path.write_bytes(data)
        with StagingFiles(str(tmp_path / "staging"), "a") as staging:
            samples = list(list_archive(Partition(str(path), len(data), "f", ""), staging, Tally()))
        failures = [sample for sample in samples if sample.failure]
        assert failures == samples[len(samples) - len(failures) :]
        assert [failure.key for failure in failures] in ([], ["a.tar"])
        valid = samples[: len(samples) - len(failures)]
        for sample in valid:
            assert len(storage.read_bytes(sample.locator.uri, version=sample.locator.version)) == sample.size
        return [sample.key for sample in valid], failures[0].failure if failures else None

    return run


@pytest.mark.parametrize(
    ("end", "keys"),
    [
        (100, []),  # in the first header
        (512, []),  # before the first member's bytes
        (1500, []),  # in them
        (1512, ["1.jpg"]),  # in the padding after them
        (1536, ["1.jpg"]),  # where the next header would be
        (1700, ["1.jpg"]),  # in that header
        (2500, ["1.jpg"]),  # in the second member's bytes
        (3072, ["1.jpg", "2.jpg"]),  # before the end-of-archive marker
        (3300, ["1.jpg", "2.jpg"]),  # in it
    ],
)
def test_a_cut_archive_gives_the_samples_that_are_whole(read, end, keys):
    data = tar_of("1.jpg", "2.jpg")
    assert read(data[: 3 * 1024 + 512]) == (["1.jpg", "2.jpg"], None)
    found, failure = read(data[:end])
    assert found == keys
    assert failure == ("truncated", f"the archive ends at byte {end:,}, before its end-of-archive marker")


@pytest.mark.parametrize("method", COMPRESS)
def test_a_cut_compressed_archive_gives_the_samples_that_are_whole(read, method):
    data = COMPRESS[method](tar_of(*(f"{number}.jpg" for number in range(100)), size=20_000))
    assert read(data)[1] is None
    keys, failure = read(data[: len(data) // 2])
    assert keys == [f"{number}.jpg" for number in range(len(keys))]
    # bz2 gives its bytes in blocks of 900,000.
    assert (40 if method != "bz2" else 0) <= len(keys) < 60
    assert failure == ("truncated", f"the archive ends at byte {len(data) // 2:,}, before its end-of-archive marker")


def test_an_archive_that_was_cut_before_it_was_compressed_is_truncated(read):
    keys, failure = read(gzip.compress(tar_of("1.jpg", "2.jpg")[:2500]))
    assert (keys, failure[0]) == (["1.jpg"], "truncated")


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_cut_in_a_long_name_is_truncated(read, kind):
    data = tar_of("1.jpg", f"{'x' * 2000}.jpg", format=kind)
    keys, failure = read(data[: 1536 + 700])
    assert (keys, failure[0]) == (["1.jpg"], "truncated")


def test_a_damaged_header_is_not_taken_for_the_end(read):
    data = bytearray(tar_of("1.jpg", "2.jpg", "3.jpg"))
    data[1536] ^= 1
    assert read(bytes(data)) == (["1.jpg"], ("corrupt", "the archive is damaged at byte 1,536: bad checksum"))


def test_a_compressed_archive_with_a_flipped_bit_is_corrupt(read):
    data = bytearray(gzip.compress(tar_of(*(f"{number}.jpg" for number in range(20))), compresslevel=0))
    data[10_000] ^= 1
    keys, failure = read(bytes(data))
    assert failure[0] == "corrupt"
    assert "CRC" in failure[1]
    assert len(keys) == 20


def test_an_archive_of_several_gzip_members_is_read_whole(read):
    data = tar_of("1.jpg", "2.jpg")
    assert read(gzip.compress(data[:1000]) + gzip.compress(data[1000:])) == (["1.jpg", "2.jpg"], None)


def test_a_second_archive_behind_the_first_is_reported(read):
    keys, failure = read(tar_of("1.jpg") + tar_of("2.jpg"))
    assert keys == ["1.jpg"]
    assert failure[0] == "corrupt"
    assert "a second archive" in failure[1]


@pytest.mark.parametrize("data", [b"no archive" * 1000, b"BZh91AY&SY" + bytes(100), b"\xfd7zXZ\0" + bytes(100)])
def test_a_file_that_is_no_archive_is_one_rejected_sample(read, data):
    keys, failure = read(data)
    assert (keys, failure[0]) == ([], "corrupt")


def test_the_name_of_the_file_does_not_decide_the_compression(read):
    assert read(gzip.compress(tar_of("1.jpg"))) == (["1.jpg"], None)


def header_of(size: int, kind: bytes) -> bytes:
    member = tarfile.TarInfo("x.jpg")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE])
@pytest.mark.parametrize("size", [1 << 30, -512])
def test_a_header_that_would_fill_the_memory_is_corrupt(read, kind, size):
    assert read(header_of(size, kind) + bytes(4096))[1][0] == "corrupt"


def test_a_negative_size_in_a_pax_header_is_corrupt(read):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("1.jpg")
        member.pax_headers = {"size": "-1024"}
        archive.addfile(member)
    assert read(file.getvalue())[1][0] == "corrupt"


def test_a_damaged_pax_header_is_not_taken_for_the_end(read):
    data = tar_of("1.jpg")[:1536] + header_of(6, tarfile.XHDTYPE) + b"0 a=b\n".ljust(512, b"\0") + tar_of("2.jpg")
    assert read(data) == (["1.jpg"], ("corrupt", "the archive is damaged at byte 1,536: invalid header"))


def test_headers_nested_without_end_are_corrupt(read):
    assert read(header_of(0, tarfile.XHDTYPE) * 3000)[1][0] == "corrupt"


def test_an_archive_that_goes_missing_is_unreadable(tmp_path):
    (tmp_path / "a.tar").write_bytes(tar_of("1.jpg"))
    source = open_source(tmp_path / "a.tar", source="tar")
    (archive,) = source.partitions
    (tmp_path / "a.tar").unlink()
    with StagingFiles(str(tmp_path), "a") as staging:
        (sample,) = until_damage(source.read(archive, Tally(), staging), archive, Tally())
    assert sample.failure == ("unreadable", "No such file or directory")


def test_a_refused_archive_is_unreadable_and_a_fault_of_the_store_is_not_its_failure(tmp_path, monkeypatch):
    (tmp_path / "a.tar").write_bytes(tar_of("1.jpg"))

    def read(error):
        class File(io.BytesIO):
            def read(self, size=-1):
                if self.tell() > 0:
                    raise error
                return super().read(size)

        monkeypatch.setattr(storage, "open_read", lambda path, **_: File(tar_of("1.jpg")))
        with StagingFiles(str(tmp_path / "staging"), "a") as staging:
            return list(list_archive(Partition(str(tmp_path / "a.tar"), 10_240, "", ""), staging, Tally()))

    samples = read(PermissionError(13, "Permission denied"))
    assert [sample.key for sample in samples] == ["1.jpg", "a.tar"]
    assert samples[1].failure == ("unreadable", "Permission denied")
    for fault in (OSError(5, "Input/output error"), storage.ChangedError("a.tar has changed")):
        with pytest.raises(type(fault), match=str(fault.strerror or fault)):
            read(fault)
    samples = read(storage.StorageError("gs://b/a.tar: not found"))
    assert samples[1].failure == ("unreadable", "gs://b/a.tar: not found")
    with pytest.raises(BuildError):
        read(BuildError("gs://b does not answer"))


def test_a_full_disk_ends_the_build_and_does_not_reject_the_archive(tmp_path, monkeypatch):
    (tmp_path / "a.tar").write_bytes(gzip.compress(tar_of("1.jpg")))

    def fail(*_args, **_fields):
        raise OSError(28, "No space left on device")

    with StagingFiles(str(tmp_path / "staging"), "a") as staging:
        monkeypatch.setattr(staging, "start_copy", fail)
        with pytest.raises(OSError, match="No space left"):
            list(list_archive(Partition(str(tmp_path / "a.tar"), 1, "", ""), staging, Tally()))


@pytest.mark.nightly
@pytest.mark.parametrize("extension", ["", ".gz"])
def test_ten_thousand_members_take_the_memory_of_a_few(tmp_path, extension):
    path = tmp_path / f"a.tar{extension}"
    with tarfile.open(path, f"w:{extension[1:]}") as archive:
        for number in range(10_000):
            member = tarfile.TarInfo(f"cat/{number}.jpg")
            member.size = 100
            archive.addfile(member, io.BytesIO(bytes(100)))
            archive.members = []
    container = Partition(str(path), os.path.getsize(path), "", "")
    tracemalloc.start()
    with StagingFiles(str(tmp_path / "staging"), "a") as staging:
        assert sum(1 for _ in list_archive(container, staging, Tally())) == 10_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_500_000


def test_any_damage_gives_samples_and_one_known_reason_and_no_exception(read):
    seed = 7
    noise = random.Random(seed)
    names = ["1.jpg", f"{'x' * 80}/{'y' * 90}.jpg", "é/2.jpg", "3.jpg"]
    formats = [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT]
    archives = [tar_of(*names, format=kind) for kind in formats]
    archives += [compress(archives[1]) for compress in COMPRESS.values()]
    for _ in range(300):
        data = bytearray(noise.choice(archives))
        for _ in range(noise.randint(1, 4)):
            start = noise.randrange(len(data))
            data[start : start + noise.choice([0, 1, 8])] = noise.randbytes(noise.choice([0, 1, 8]))
        _, failure = read(bytes(data))
        assert failure is None or FailureReason(failure[0]) in (FailureReason.TRUNCATED, FailureReason.CORRUPT), seed
