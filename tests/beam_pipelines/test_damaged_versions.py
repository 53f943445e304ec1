"""Damaged earlier versions: the next build ends as one from scratch would, and says what was damaged."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.dataset.dataset import open_whole
from beam_tfrecords.dataset.published import read_latest
from tests.beam_pipelines.version_builds import Source, content_of, from_scratch, make_source

# All records have the same size, so that the place of a record does not tell whose it is.
FLAGS = (
    "--image_encoding=raw",
    "--image_size=12",
    "--resize_mode=exact",
    "--num_shards=2",
    "--splits=train=0.7,test=0.3",
)
KEEP = ("--keep_versions=1", "--grace=0s")
SAMPLES = 24
TARGETS = ("manifest", "success", "latest", "index", "shard")
KINDS = ("truncate", "flip", "delete", "zero", "swap")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, picture, save, convert) -> tuple[Source, dict[str, Any]]:
    """A folder with two versions of it, then changed; and the content of a build from scratch of it."""
    root = tmp_path_factory.mktemp("damaged")
    source = make_source(root, SAMPLES, picture=picture, save=save, convert=convert)
    assert source.build(*FLAGS).code == 0
    save(source.folder / "cat/000.png", picture(100, 30, 40))
    assert source.build(*FLAGS).code == 0
    save(source.folder / "dog/001.png", picture(101, 30, 40))
    return source, from_scratch(source, root / "scratch", *FLAGS)


@pytest.fixture
def source(prepared, tmp_path) -> Source:
    shutil.copytree(prepared[0].output, tmp_path / "out")
    return Source(prepared[0].folder, tmp_path / "out", prepared[0].convert)


@pytest.fixture
def scratch(prepared) -> dict[str, Any]:
    return prepared[1]


def flip(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def damage(source: Source, target: str, kind: str, chance: random.Random) -> Path:
    """Damages one file of the newest version, or LATEST; returns it."""
    older, newest = (source.output / name for name in source.versions)
    shards, indices = sorted(newest.glob("*.tfrecord-*")), sorted(newest.glob("index/*.parquet"))
    file, others = {
        "manifest": (newest / "manifest.json", [older / "manifest.json", newest / "_SUCCESS"]),
        "success": (newest / "_SUCCESS", [older / "_SUCCESS", newest / "manifest.json"]),
        "latest": (source.output / "LATEST", [newest / "manifest.json"]),
        "index": (chance.choice(indices), indices),
        "shard": (chance.choice(shards), shards),
    }[target]
    size = file.stat().st_size
    if kind == "truncate":
        os.truncate(file, chance.randrange(size))
    elif kind == "flip":
        for _ in range(chance.choice([1, 1, 20])):
            flip(file, chance.randrange(8 * size))
    elif kind == "delete":
        file.unlink()
    elif kind == "zero":
        file.write_bytes(bytes(size))
    else:
        other = chance.choice([other for other in others if other != file])
        content = file.read_bytes()
        shutil.copyfile(other, file)
        other.write_bytes(content)
    return file


@pytest.mark.parametrize("seed", range(len(TARGETS) * len(KINDS)))
def test_the_next_build_is_that_of_a_build_from_scratch(source, scratch, run, seed):
    target, kind = TARGETS[seed % 5], KINDS[seed // 5]
    newest = source.latest
    file = damage(source, target, kind, random.Random(seed))
    content = file.read_bytes() if file.exists() else None
    before = run("status", f"--output={source.output}")
    name = read_latest(str(source.output))
    assert before.code == (0 if name and open_whole(str(source.output / name))[0] else 1), before.err
    ran = source.build(*FLAGS, *KEEP)
    assert ran.code == 0, ran.err
    assert content_of(source.latest) == scratch, (target, kind)
    if target in ("manifest", "success"):
        told = f"version {newest.name} is damaged, and left as it is: "
        assert f"note: {told}" in before.out
        assert f"note: {told}" in ran.out
        assert any(note.startswith(told) for note in source.changes["notes"])
        assert source.build(*FLAGS, *KEEP).code == 0
        assert (file.read_bytes() if file.exists() else None) == content
        assert len(list(newest.rglob("*"))) > 8
        assert "damaged" in run("status", f"--output={source.output}").out
    elif target == "index":
        assert any(f"{file.relative_to(newest)} is damaged: " in note for note in source.changes["notes"])


def test_a_flipped_bit_of_an_index_takes_no_other_picture(source, scratch, verify):
    """The offsets of two records are exchanged, as bit flips may do; all else of the index is right."""
    (path, *_) = sorted(source.latest.glob("index/*train*.parquet"))
    table = pq.read_table(path).to_pydict()
    table["offset"][0], table["offset"][1] = table["offset"][1], table["offset"][0]
    pq.write_table(pa.table(table, schema=pq.read_schema(path)), path)
    ran = source.build(*FLAGS)
    assert ran.code == 0, ran.err
    assert content_of(source.latest) == scratch
    assert f"note: index/{path.name} is damaged: {len(table['key'])} samples converted again" in ran.out
    assert verify(source.output).code == 0


@pytest.mark.any_workers
def test_a_record_of_another_sample_is_not_taken_over(source, scratch):
    first, second = sorted(source.latest.glob("*train.tfrecord-*"))
    one, other = first.read_bytes(), second.read_bytes()
    size = min(len(one), len(other))
    first.write_bytes(other[:size] + one[size:])
    ran = source.build(*FLAGS)
    assert ran.code == 0, ran.err
    assert content_of(source.latest) == scratch
    assert f"note: {first.name} is damaged: " in ran.out
    assert source.counts().keys() == {"copied", "changed"}


def test_samples_of_a_damaged_index_count_as_changed(source):
    (path, *_) = sorted(source.latest.glob("index/*train*.parquet"))
    path.unlink()
    assert source.build(*FLAGS).code == 0
    assert source.counts().keys() == {"copied", "changed"}


def remove_folder(source: Source) -> str:
    name = source.latest.name
    shutil.rmtree(source.latest)
    return f"LATEST names {name}, which is missing or unfinished"


def remove_latest(source: Source) -> str:
    (source.output / "LATEST").unlink()
    return "LATEST is missing; the newest intact version is "


def zero_manifest(source: Source) -> str:
    path = source.latest / "manifest.json"
    path.write_bytes(bytes(path.stat().st_size))
    return f"version {source.latest.name} is damaged, and left as it is: manifest.json is not the one"


@pytest.mark.parametrize("hurt", [remove_folder, remove_latest, zero_manifest])
def test_the_newest_whole_version_is_reused_and_the_note_says_why(source, scratch, run, hurt: Callable[[Source], str]):
    told = hurt(source)
    assert f"note: {told}" in run("status", f"--output={source.output}").out
    ran = source.build(*FLAGS)
    assert ran.code == 0, ran.err
    assert f"note: {told}" in ran.out
    assert content_of(source.latest) == scratch
    assert source.counts()["copied"] >= SAMPLES - 2


def test_without_a_whole_version_everything_is_converted(source, scratch):
    for name in source.versions:
        (source.output / name / "manifest.json").write_text("{}")
    names = source.versions
    ran = source.build(*FLAGS, *KEEP)
    assert ran.code == 0, ran.err
    assert content_of(source.latest) == scratch
    assert source.versions == [*names, source.latest.name]
    assert all(f"note: version {name} is damaged" in ran.out for name in names)
    assert source.changes["note"] == "no earlier version is whole: there is nothing to compare it with"


@pytest.mark.parametrize("pattern", ["*.tfrecord-*", "index/*.parquet", "features.json"])
def test_an_unchanged_input_replaces_a_version_with_missing_files(source, scratch, pattern):
    assert source.build(*FLAGS).code == 0
    newest = source.latest
    next(newest.glob(pattern)).unlink()
    assert source.build(*FLAGS).code == 0
    assert source.latest != newest
    assert content_of(source.latest) == scratch
    assert "nothing has changed" in source.build(*FLAGS).out


def test_latest_names_the_whole_version_again_that_the_input_would_make(source, scratch):
    assert source.build(*FLAGS).code == 0
    newest = source.latest
    (source.output / "LATEST").write_text("20990101T000000Z\n")
    ran = source.build(*FLAGS)
    assert ran.code == 0, ran.err
    assert "nothing has changed" in ran.out
    assert "note: LATEST names 20990101T000000Z, which is missing or unfinished" in ran.err
    assert source.latest == newest


def test_a_damaged_dataset_to_reuse_is_named_and_not_used(source, scratch, tmp_path):
    whole = source.latest
    plain = tmp_path / "plain"
    shutil.copytree(whole, plain)
    flip(plain / "manifest.json", 99)
    words = [f"--input={source.folder}", f"--output={tmp_path / 'new'}", "--name=pets", *FLAGS]
    ran = source.convert(*words, f"--reuse={plain}")
    assert ran.code == 0, ran.err
    assert f"note: {plain} is damaged, so nothing of it is reused: manifest.json is not the one" in ran.err
    assert content_of(tmp_path / "new") == scratch


@pytest.mark.parametrize("size", [None, 0, 7])
def test_a_damaged_list_of_duplicates_ends_no_build(tmp_path, picture, save, convert, size):
    source = make_source(tmp_path, 9, picture=picture, save=save, convert=convert)
    shutil.copy(source.folder / "cat/000.png", source.folder / "cat/copy.png")
    assert source.build().code == 0
    path = source.latest / "duplicates.jsonl"
    assert path.read_bytes()
    if size is None:
        path.unlink()
    else:
        os.truncate(path, size)
    save(source.folder / "dog/new.png", picture(101, 30, 40))
    ran = source.build("--guard=off")
    assert ran.code == 0, ran.err
    assert source.counts()["added"] == 1
    assert content_of(source.latest) == from_scratch(source, tmp_path / "scratch", "--guard=off")
