from __future__ import annotations

import tracemalloc

import pytest

from beam_tfrecords import storage
from beam_tfrecords.storage.members import member_path
from beam_tfrecords.transforms.sources import partition
from beam_tfrecords.transforms.sources.partition import StagingFiles
from tests.each import each


def content(place):
    return storage.read_range(place.uri, place.offset, place.length)


def test_a_sample_that_does_not_fit_begins_a_new_file(tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "_MOST_STAGING_BYTES", 10)
    sizes = [4, 6, 1, 25, 10]
    with StagingFiles(str(tmp_path), "c") as staging:
        places = [staging.add([bytes([n]) * size], size=size, name="") for n, size in enumerate(sizes)]
    assert [content(place) for place in places] == [bytes([n]) * size for n, size in enumerate(sizes)]
    files = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert files == {"c-0000.staged": 10, "c-0001.staged": 1, "c-0002.staged": 25, "c-0003.staged": 10}


def test_a_sample_that_is_too_large_is_not_copied(tmp_path):
    with StagingFiles(str(tmp_path), "c", most_bytes=3) as staging:
        assert staging.add([b"abcd"], size=4, name="x").length == 4
        kept = staging.add([b"abc"], size=3, name="y")
    assert content(kept) == b"abc"
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [3]


def test_an_error_leaves_no_unfinished_file(tmp_path):
    def write():
        with StagingFiles(str(tmp_path), "c") as staging:
            staging.add([b"ab"], size=2, name="")
            raise KeyError

    with pytest.raises(KeyError):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_sample_that_fails_half_way_does_not_shift_the_next(tmp_path):
    def broken():
        yield b"ab"
        raise KeyError

    with StagingFiles(str(tmp_path), "c") as staging:
        with pytest.raises(KeyError):
            staging.add(broken(), size=4, name="")
        place = staging.add([b"cd"], size=2, name="")
    assert content(place) == b"cd"


def test_a_large_sample_is_staged_in_the_memory_of_one_piece(tmp_path):
    tracemalloc.start()
    with StagingFiles(str(tmp_path), "c") as staging:
        staging.add((bytes(100_000) for _ in range(300)), size=30_000_000, name="")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


@each(
    "name, path",
    [
        ("cat/1.jpg", "cat/1.jpg"),
        ("./cat//./1.jpg", "cat/1.jpg"),
        ("/etc/cat/1.jpg", "etc/cat/1.jpg"),
        ("//cat/1.jpg", "cat/1.jpg"),
        ("../../cat/1.jpg", "cat/1.jpg"),
        ("a/../cat/1.jpg", "cat/1.jpg"),
        ("caf\udce9/1.jpg", "caf\\xe9/1.jpg"),
        (".", ""),
    ],
)
def test_names_of_members_become_clean_relative_paths(name, path):
    assert member_path(name) == path
