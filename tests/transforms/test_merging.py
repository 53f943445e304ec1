"""Shards made of the parts' own files: the same as copied ones, whenever an attempt was ended."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.transforms.part_writing import write_parts
from transforms import storage
from transforms.compose import ShardNames, compose_shard
from transforms.errors import BuildError

PIECES = [b"the first", b"", b"the second, longer", b"third"]
WHOLE = b"".join(PIECES)


@pytest.fixture
def sources(tmp_path) -> list[tuple[str, int]]:
    for number, piece in enumerate(PIECES):
        (tmp_path / f"part-{number}").write_bytes(piece)
    return [(str(tmp_path / f"part-{number}"), len(piece)) for number, piece in enumerate(PIECES)]


def merge(sources: list[tuple[str, int]], target: Path) -> bytes:
    sha256 = storage.merge_files(sources, str(target))
    assert not [path for path, _ in sources if Path(path).exists()]
    assert sha256 == hashlib.sha256(target.read_bytes()).hexdigest()
    return target.read_bytes()


def test_files_become_one_and_are_gone(sources, tmp_path):
    assert merge(sources, tmp_path / "merged") == WHOLE


@pytest.mark.parametrize("present", range(len(PIECES[0]), len(WHOLE) + 1))
@pytest.mark.parametrize("removed", [True, False], ids=["last one removed", "last one not yet removed"])
def test_an_attempt_that_was_ended_anywhere_is_gone_on_with(sources, tmp_path, present, removed):
    (tmp_path / "merged").write_bytes(WHOLE[:present])
    end = 0
    for path, size in sources:
        end += size
        if end < present or (end == present and removed):
            Path(path).unlink()
    assert merge(sources, tmp_path / "merged") == WHOLE


def test_a_target_with_more_than_its_files_is_told(sources, tmp_path):
    (tmp_path / "merged").write_bytes(WHOLE + b"x")
    with pytest.raises(storage.StorageError, match=f"has {len(WHOLE) + 1} bytes, but {len(WHOLE)} were written to it"):
        merge(sources, tmp_path / "merged")


def test_no_files_become_an_empty_one(tmp_path):
    assert merge([], tmp_path / "merged") == b""


@pytest.mark.parametrize("number", [0, 2])
def test_a_file_that_lost_bytes_or_is_gone_is_told(sources, tmp_path, number):
    path = Path(sources[number][0])
    path.write_bytes(b"short")
    with pytest.raises(storage.StorageError, match=f"{path} has 5 bytes, but {len(PIECES[number])} were written to it"):
        merge(sources, tmp_path / "merged")
    path.unlink()
    with pytest.raises(storage.StorageError, match=f"{path} is not there any more"):
        merge(sources, tmp_path / "merged")


# Shards


@pytest.fixture
def compose(tmp_path):
    parts = write_parts(
        tmp_path, {block: [f"{block}-{number}".encode() * 5 for number in range(20)] for block in range(3)}
    )

    def compose(output: str, merging: str | None = str(tmp_path / "merging")):
        names = ShardNames(str(tmp_path / output), "pets")
        shard = compose_shard((("train", 0, 1), parts[::-1]), names=names, with_index=True, merging=merging)
        return shard, (tmp_path / output / shard.file).read_bytes()

    compose.parts = parts
    return compose


def test_a_merged_shard_is_the_copied_one(compose):
    copied = compose("copied", None)
    assert compose("merged") == copied
    assert not [part for part in compose.parts if Path(part.uri).exists()]


def test_a_shard_whose_parts_are_gone_is_the_same_in_the_next_attempt(compose):
    assert compose("merged") == compose("merged")


def test_an_attempt_that_ended_before_the_shard_had_its_name_is_gone_on_with(compose, tmp_path):
    shard, data = compose("merged")
    (tmp_path / "merged" / shard.file).rename(tmp_path / "merging" / shard.file)
    assert compose("merged") == (shard, data)


def test_a_missing_part_breaks_the_build_and_says_what_to_do(compose):
    Path(compose.parts[2].uri).unlink()
    with pytest.raises(BuildError, match=r"is not there any more; remove .*\.build and run the same command again"):
        compose("merged")
