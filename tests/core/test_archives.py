"""The file system below the sources that reads archives: addresses, listings, ranges, versions and expansion."""

from __future__ import annotations

import os
import random
import tarfile
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import archives
from tests.archive_files import COMPRESS, tar_of, write_archive
from tests.each import each

NOISE = random.Random(3).randbytes(300_000)
FILES = {
    "a.txt": b"letters" * 9,
    "b/c.bin": NOISE,
    "b/d/e.json": b"{}",
    "b-more.txt": b"",
    "ü/f.txt": b"x",
}
NAMES = ("set.zip", "set.tar", "set.tar.gz", "set.tgz", "SET.ZIP", "set.tar-00000-of-00001")


@pytest.fixture(params=NAMES)
def root(request, tmp_path) -> str:
    """An archive with these files; `#` behind its path makes it a folder."""
    path = tmp_path / request.param
    write_archive(path, FILES)
    return f"{path}#"


def names_of(root: str, below: str = "", **options) -> list[str]:
    return sorted(one.path.removeprefix(f"{root}/") for one in storage.list_files(f"{root}{below}", **options))


def test_files_and_folders_are_those_of_the_archive(root):
    assert names_of(root) == sorted(FILES)
    assert names_of(root, "/b", literal=True) == ["b/c.bin", "b/d/e.json"]
    assert names_of(root, "/nothing") == []
    assert len(names_of(root, limit=2)) == 2
    assert storage.list_folders(root) == ["b", "ü"]
    assert storage.list_folders(f"{root}/b") == ["d"]
    for path, is_file, is_folder in (
        ("", False, True), ("/", False, True), ("/b", False, True), ("/b/", False, True), ("/b/d", False, True),
        ("/b/c", False, False), ("/a.txt", True, False), ("/a.txt/x", False, False), ("/c", False, False),
    ):  # fmt: skip
        found = storage.is_file(root + path), storage.is_folder(root + path), storage.exists(root + path)
        assert found == (is_file, is_folder, is_file or is_folder), path
    with pytest.raises(FileNotFoundError, match="No such file in the archive"):
        storage.stat(f"{root}/c")


@each(
    "pattern, expected",
    [
        ("/*.txt", ["a.txt", "b-more.txt"]),
        ("/**/*.txt", ["a.txt", "b-more.txt", "ü/f.txt"]),
        ("/b/*", ["b/c.bin"]),
        ("/b/**", ["b/c.bin", "b/d/e.json"]),
        ("/[a-b]*", ["a.txt", "b-more.txt"]),
    ],
)
def test_a_glob_lists_what_matches(pattern, expected, tmp_path):
    write_archive(tmp_path / "set.zip", FILES)
    assert names_of(f"{tmp_path}/set.zip#", pattern) == expected
    assert names_of(f"{tmp_path}/set.zip#", pattern, literal=True) == []


def test_whole_files_ranges_and_streams_have_the_bytes(root):
    random_places = random.Random(5)
    for name, data in FILES.items():
        entry = storage.stat(f"{root}/{name}")
        assert entry.size == len(data)
        for version in ("", entry.version):
            assert storage.read_bytes(entry.path, version=version, size=entry.size) == data
            for _ in range(12):
                start, length = random_places.randrange(len(data) + 2), random_places.choice([0, 1, 7, 5000, 400_000])
                assert storage.read_range(entry.path, start, length, version=version) == data[start : start + length]
            with storage.open_read(entry.path, version=version) as file:
                assert file.read(3) == data[:3]
                file.seek(len(data) // 2)
                assert file.read() == data[len(data) // 2 :]


@each("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_large_members_of_zip_archives_are_read_in_bounded_memory(method, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_MOST_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("noise", NOISE)
        archive.writestr("zeros", bytes(500_000))
    for name, data in (("noise", NOISE), ("zeros", bytes(500_000))):
        path = f"{tmp_path}/a.zip#/{name}"
        assert storage.read_bytes(path) == data
        assert storage.read_range(path, 100_000, 90) == data[100_000:100_090]
        assert storage.read_range(path, 0, 90) == data[:90]


@each("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_flipped_bit_is_noticed_by_reading_a_whole_member(method, tmp_path, monkeypatch):
    for most in (10**6, 1000):
        monkeypatch.setattr(archives, "_MOST_BYTES", most)
        with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
            archive.writestr("noise", NOISE)
        data = bytearray((tmp_path / "a.zip").read_bytes())
        data[150_000] ^= 1
        (tmp_path / "a.zip").write_bytes(data)
        with pytest.raises(storage.MemberError, match=r"CRC-32|damaged") as found:
            storage.read_bytes(f"{tmp_path}/a.zip#/noise")
        assert found.value.reason.value == "corrupt"


def test_the_last_of_several_members_counts_and_links_are_no_files(tmp_path):
    members = {"a.txt": b"1", "b": {"link": "a.txt"}, "c": {"pipe": None}, "./a.txt": b"22", "a.txt+": b"333"}
    (tmp_path / "a.tar").write_bytes(tar_of(members))
    assert names_of(f"{tmp_path}/a.tar#") == ["a.txt"]
    assert storage.read_bytes(f"{tmp_path}/a.tar#/a.txt") == b"333"


def test_a_replaced_archive_is_listed_again_and_its_old_files_have_changed(root):
    path = Path(root[:-1])
    old = storage.stat(f"{root}/a.txt")
    fresh = path.with_name(f"new{path.name}")
    write_archive(fresh, {"a.txt": b"other", "z.txt": b"z"})
    os.replace(fresh, path)
    assert names_of(root) == ["a.txt", "z.txt"]
    assert storage.read_bytes(f"{root}/a.txt") == b"other"
    assert storage.stat(f"{root}/a.txt").fingerprint != old.fingerprint
    if path.suffix not in (".gz", ".tgz"):
        with pytest.raises(storage.ChangedError):
            storage.read_bytes(old.path, version=old.version)
        with pytest.raises(storage.ChangedError):
            storage.open_read(old.path, version=old.version)


@each("form", sorted(COMPRESS))
def test_a_compressed_archive_is_expanded_once_into_the_folder_of_the_build(form, tmp_path):
    name = "set.tgz" if form == "tgz" else f"set.tar.{form}"
    write_archive(tmp_path / name, FILES)
    with storage.expanding_into(str(tmp_path / "expanded")):
        entry = storage.stat(f"{tmp_path}/{name}#/b/c.bin")
        (copy,) = (tmp_path / "expanded").iterdir()
        assert storage.read_bytes(entry.path) == NOISE
        times = copy.stat().st_mtime_ns
        assert names_of(f"{tmp_path}/{name}#") == sorted(FILES)
        assert copy.stat().st_mtime_ns == times
        with tarfile.open(copy) as archive:
            assert archive.getnames() == list(FILES)
        copy.unlink()
        assert storage.read_bytes(f"{tmp_path}/{name}#/a.txt") == FILES["a.txt"]
    # Another process reads the place.
    os.remove(tmp_path / name)
    assert storage.read_bytes(entry.path, version=entry.version) == NOISE


@each("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_a_damaged_archive_is_no_folder(name, tmp_path):
    write_archive(tmp_path / name, FILES)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(storage.MemberError, match=r"the archive (is truncated|ends at byte)") as found:
        names_of(f"{tmp_path}/{name}#")
    assert found.value.reason.value == "truncated"
    assert not storage.is_service_fault(found.value)


def test_a_missing_archive_has_no_files(tmp_path):
    assert not storage.exists(f"{tmp_path}/a.zip#/a.txt")
    assert not storage.is_folder(f"{tmp_path}/a.zip#")
    with pytest.raises(FileNotFoundError):
        storage.stat(f"{tmp_path}/a.zip#/a.txt")


def test_other_paths_with_a_number_sign_lead_into_no_archive(tmp_path):
    for folder in ("C#", "a.zip#b", "a.zipp#"):
        path = tmp_path / folder / "1.txt"
        path.parent.mkdir()
        path.write_bytes(b"1")
        assert storage.archive_of(str(path)) is None
        assert storage.read_bytes(str(path)) == b"1"
        assert storage.shown(str(path)) == str(path)


def test_a_member_is_shown_behind_its_archive():
    assert storage.shown("/data/photos.zip#/cat/1#/2.jpg") == "/data/photos.zip#cat/1#/2.jpg"
    assert storage.shown("gs://bucket/photos.tar.gz#/1.jpg") == "gs://bucket/photos.tar.gz#1.jpg"
    assert storage.has_scheme("gs://bucket/photos.zip#/1.jpg")
    assert not storage.has_scheme("/data/photos.zip#/1.jpg")


def test_nothing_is_written_to_an_archive(tmp_path):
    write_archive(tmp_path / "a.zip", FILES)
    path = f"{tmp_path}/a.zip#/new"
    for write in (lambda: storage.write_bytes(path, b"x"), lambda: storage.delete_files([path])):
        with pytest.raises((OSError, BuildError), match="nothing is written to an archive"):
            write()


def test_what_a_tracker_notes_of_a_member_is_its_archive(tmp_path):
    write_archive(tmp_path / "a.zip", FILES)
    tracker = storage.DependencyTracker()
    with storage.noting_files(tracker):
        storage.read_bytes(f"{tmp_path}/a.zip#/a.txt")
        assert not storage.is_file(f"{tmp_path}/a.zip#/none")
    assert tracker.fingerprints == {f"{tmp_path}/a.zip": storage.stat(f"{tmp_path}/a.zip").fingerprint}


def test_a_deflated_member_that_says_too_little_or_too_much_is_corrupt(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("noise", NOISE)
    entry = storage.stat(f"{tmp_path}/a.zip#/noise")
    place = storage.Place.unpack(entry.version)
    assert place.crc == zlib.crc32(NOISE)
    for size in (100_000, 400_000):
        other = place.__class__(**{**vars(place), "size": size})
        with pytest.raises(storage.MemberError):
            storage.read_bytes(entry.path, version=other.pack())


def test_members_that_cannot_be_read_are_listed_and_say_why(tmp_path):
    members = {"a.txt": {"encrypted": b"x"}, "b.txt": {"lzma": b"x"}, "c.txt": b"x"}
    write_archive(tmp_path / "a.zip", members)
    assert names_of(f"{tmp_path}/a.zip#") == ["a.txt", "b.txt", "c.txt"]
    for name, why in (("a.txt", "encrypted"), ("b.txt", "compressed with LZMA")):
        entry = storage.stat(f"{tmp_path}/a.zip#/{name}")
        for version in ("", entry.version):
            with pytest.raises(storage.MemberError, match=why) as found:
                storage.read_bytes(entry.path, version=version)
            assert found.value.reason.value == "unsupported_format"


def test_a_copy_of_another_process_is_read_instead_of_the_archive(tmp_path, monkeypatch):
    write_archive(tmp_path / "a.tar.gz", FILES)
    with storage.expanding_into(str(tmp_path / "expanded")):
        first = storage.stat(f"{tmp_path}/a.tar.gz#/b/c.bin")
        monkeypatch.setattr(archives, "_directories", type(archives._directories)())
        (copy,) = (tmp_path / "expanded").iterdir()
        times = copy.stat().st_mtime_ns
        assert storage.stat(first.path) == first
        assert copy.stat().st_mtime_ns == times


def test_threads_read_the_copy_of_their_build(tmp_path):
    write_archive(tmp_path / "a.tar.gz", FILES)
    with storage.expanding_into(str(tmp_path / "expanded")):
        entry = storage.stat(f"{tmp_path}/a.tar.gz#/b/c.bin")
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(storage.stat, entry.path).result() == entry
