"""Versions that take over what has not changed, also of damaged ones: the result is that of a build from scratch."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import BuildError, RequestError, open_dataset
from tests.beam_pipelines.dataset_checks import shards_of
from tests.beam_pipelines.version_builds import Source, content_of, from_scratch, make_source

COUNT = 36
FAILS = "--max_failures=0.1"


@pytest.fixture(scope="module")
def first(tmp_path_factory, convert) -> Source:
    """A first version, with a failure; tests work on copies."""
    source = make_source(tmp_path_factory.mktemp("first"), COUNT, convert)
    (source.folder / "cat/broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    assert source.build(FAILS).code == 0
    return source


def copy_of(source: Source, folder: Path) -> Source:
    """Copies the input with the times of its files, and the versions; keys are the same."""
    shutil.copytree(source.folder, folder / "in")
    shutil.copytree(source.output, folder / "out")
    return Source(folder / "in", folder / "out", source.convert)


@pytest.fixture
def source(first, tmp_path) -> Source:
    return copy_of(first, tmp_path)


def touch(path: Path, at: int = 1) -> None:
    os.utime(path, (at, at))


def test_the_same_input_makes_no_new_version_and_status_says_so(source, run):
    ran = source.build(FAILS)
    assert (ran.code, ran.out) == (0, f"nothing has changed since dataset: {source.latest}\n")
    assert len(source.versions) == 1
    assert not (source.output / ".build").exists()
    version = source.latest.name
    (line,) = [line for line in run("status", source.output).out.splitlines() if line.startswith("last run: ")]
    assert re.fullmatch(rf"last run: [\d-]+T[\d:]+Z, took \d+ s, and found nothing new since {version}", line)
    assert json.loads(run("status", source.output, "--json").out)["last_unchanged"]["version"] == version
    # The fast check does not know whether it would fail again: the fingerprint of another file is new.
    broken = source.folder / "cat/broken.jpg"
    before = broken.stat()
    broken.write_bytes(broken.read_bytes())
    os.utime(broken, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.build(FAILS).code == 0
    assert "nothing has changed" in source.build(FAILS).out
    (source.folder / "cat/000.png").unlink()
    assert source.build(FAILS).code == 0
    assert "last run" not in run("status", source.output).out


@pytest.mark.any_workers
def test_unchanged_samples_are_copied_and_the_result_is_that_of_a_build_from_scratch(source, tmp_path):
    source.put("dog/new.png", 1000)  # added
    source.put("cat/000.png", 1001)  # changed
    (source.folder / "cat/003.png").unlink()  # removed
    (source.folder / "cat/006.png").rename(source.folder / "owl/006.png")  # of another class, so another key
    touch(source.folder / "owl/002.png")  # another time, the same bytes
    ran = source.build(FAILS, "--accept=class_shares")
    assert ran.code == 0, ran.err
    counts = {"copied": COUNT - 4, "reserialized": 1, "changed": 1, "added": 2, "removed": 2, "failed": 1}
    assert source.counts() == counts
    assert f"{', '.join(f'{name} {count}' for name, count in counts.items())}, moved 0" in ran.out
    assert content_of(source.latest) == from_scratch(source, tmp_path / "new", FAILS)
    changes = source.changes["changes"]
    assert {one["key"] for one in changes["removed"]["keys"]} == {"cat/003.png", "cat/006.png"}
    classes = {one["key"]: one["class"] for one in changes["added"]["keys"]}
    assert classes == {"dog/new.png": "dog", "owl/006.png": "owl"}
    # What failed before is tried again.
    source.put("cat/broken.jpg", 7)
    assert source.build("--guard=off").code == 0
    assert source.counts() == {"copied": COUNT, "added": 1}


# Flags -> what the summary says, and the counts.
OTHERS: dict[str, tuple[str, dict[str, int]]] = {
    "--image_size=20": ("nothing was reused: image_size changed from 24x24 to 20x20", {}),
    "--jpeg_quality=50": ("nothing was reused: jpeg_quality changed from 95 to 50", {}),
    "--seed=7": ("nothing was reused: seed changed from 0 to 7", {}),
    # The fields of the image stay; the label becomes a list.
    "--spec=spec.yaml": ("", {"reserialized": COUNT, "failed": 1}),
}


@pytest.mark.parametrize("flag", OTHERS)
def test_with_other_settings_the_result_is_that_of_a_build_from_scratch(source, tmp_path, monkeypatch, flag):
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text("layout: {image: image.encoded, label: labels.index, filename: filename}")
    ran = source.build(FAILS, flag, "--guard=off")
    assert ran.code == 0, ran.err
    said, counts = OTHERS[flag]
    assert said in ran.out
    assert content_of(source.latest) == from_scratch(source, tmp_path / "new", FAILS, flag)
    assert not counts or source.counts() == counts


def test_reuse_none_converts_everything(source):
    touch(source.folder / "owl/002.png")
    assert source.build(FAILS, "--reuse=none").code == 0
    assert content_of(source.latest)["manifest"]["median_pixels"]
    assert "changes" not in source.changes


def test_by_content_a_copy_with_other_times_is_the_same(source):
    flags = (FAILS, "--fingerprint=content", "--guard=off")
    assert source.build(*flags).code == 0
    for path in source.folder.rglob("*.png"):
        touch(path)
    assert "nothing has changed" in source.build(*flags).out
    assert len(source.versions) == 2


def test_any_earlier_dataset_can_be_reused_and_a_damaged_one_is_named(source, tmp_path):
    flags = [f"--input={source.folder}", "--name=pets", "--image_size=24", "--splits=train=0.8,test=0.2", FAILS]
    ran = source.convert(*flags, f"--output={tmp_path / 'plain'}", f"--reuse={source.output}")
    assert ran.code == 0, ran.err
    assert f"records: copied {COUNT}" in ran.out
    flip(tmp_path / "plain/manifest.json", 99)
    ran = source.convert(*flags, f"--output={tmp_path / 'more'}", f"--reuse={tmp_path / 'plain'}")
    said = f"note: {tmp_path / 'plain'} is damaged, so nothing of it is reused: manifest.json is not the one"
    assert (ran.code, said in ran.err) == (0, True), ran.err
    assert shards_of(tmp_path / "more") == shards_of(source.latest)


def test_a_label_in_a_table_changes_without_decoding(source, tmp_path, convert):
    rows = [f"in/{path.relative_to(source.folder)}" for path in sorted(source.folder.rglob("*.png"))]
    labels = ["ab"[number % 2] for number in range(COUNT)]
    words = [f"--input={tmp_path / 't.csv'}", f"--output={tmp_path / 'table'}", "--image_size=24", "--versioned"]
    for chosen in (labels, ["b", "a", *labels[2:]]):
        lines = (f"{path},{label}\n" for path, label in zip(rows, chosen, strict=True))
        (tmp_path / "t.csv").write_text("image,label\n" + "".join(lines))
        ran = convert(*words, "--guard=off")
        assert ran.code == 0, ran.err
    assert f"copied {COUNT - 2}, reserialized 2, changed 0" in ran.out


@pytest.mark.parametrize(
    ("form", "column", "flags"),
    [
        ("csv", "image", ["--key_column=id", "--class_names=x"]),
        ("csv", "mask", ["--mask_column=mask", "--layout=segmentation"]),
        ("csv", "right", ["--image_column=image,right", "--class_names=x"]),
        ("parquet", "image", ["--source=hf_parquet", "--class_names=x"]),
    ],
)
def test_a_row_that_names_another_file_of_the_same_size_and_time_is_converted(
    tmp_path, save, build, form, column, flags
):
    for name, value in (("a", 1), ("b", 2)):
        touch(save(tmp_path / f"{name}.bmp", np.full((8, 8), value, np.uint8)))
    table = tmp_path / f"t.{form}"

    def shards(output: str, file: str, *words: str) -> dict[str, bytes]:
        row = {"id": "1", "image": "a.bmp", "mask": "a.bmp", "right": "a.bmp", "label": "x", column: file}
        if form == "csv":
            table.write_text("\n".join(map(",".join, (row, row.values()))) + "\n")
        else:
            kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
            images = pa.array([{"bytes": None, "path": row["image"]}], kind)
            pq.write_table(pa.table({"image": images, "label": [row["label"]]}), table)
        return shards_of(build(tmp_path / output, f"--input={table}", "--image_encoding=png", *flags, *words))

    first = shards("first", "a.bmp")
    second = shards("second", "b.bmp", f"--reuse={tmp_path / 'first'}")
    assert second != first
    assert second == shards("new", "b.bmp")


# Damaged versions.

# All records have the same size, so that the place of a record does not tell whose it is.
RAW = (
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
def prepared(tmp_path_factory, convert) -> tuple[Source, dict[str, Any]]:
    """A folder with two versions of it, then changed; and the content of a build from scratch of it."""
    root = tmp_path_factory.mktemp("damaged")
    source = make_source(root, SAMPLES, convert)
    for number, name in enumerate(("cat/000.png", "dog/001.png"), 100):
        assert source.build(*RAW).code == 0
        source.put(name, number)
    return source, from_scratch(source, root / "scratch", *RAW)


@pytest.fixture
def hurt(prepared, tmp_path) -> Source:
    return copy_of(prepared[0], tmp_path)


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
def test_after_any_damage_the_next_build_is_that_of_a_build_from_scratch(hurt, scratch, run, seed):
    target, kind = TARGETS[seed % 5], KINDS[seed // 5]
    newest = hurt.latest
    file = damage(hurt, target, kind, random.Random(seed))
    content = file.read_bytes() if file.exists() else None
    before = run("status", f"--output={hurt.output}")
    try:
        open_dataset(hurt.output)
    except (BuildError, RequestError):
        assert before.code == 1
    ran = hurt.build(*RAW, *KEEP)
    assert ran.code == 0, ran.err
    assert content_of(hurt.latest) == scratch, (target, kind)
    if target in ("manifest", "success"):
        told = f"version {newest.name} is damaged, and left as it is: "
        assert f"note: {told}" in before.out
        assert f"note: {told}" in ran.out
        assert any(note.startswith(told) for note in hurt.changes["notes"])
        assert hurt.build(*RAW, *KEEP).code == 0
        assert (file.read_bytes() if file.exists() else None) == content
        assert len(list(newest.rglob("*"))) > 8
        assert "damaged" in run("status", f"--output={hurt.output}").out
    elif target == "index":
        assert any(f"{file.relative_to(newest)} is damaged: " in note for note in hurt.changes["notes"])


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


def exchange_offsets(source: Source) -> str:
    """Exchanges the offsets of two records, as bit flips may do; all else of the index is right."""
    path = min(source.latest.glob("index/*train*.parquet"))
    rows, schema = pq.read_table(path).to_pylist(), pq.read_schema(path)
    rows[0]["offset"], rows[1]["offset"] = rows[1]["offset"], rows[0]["offset"]
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return f"index/{path.name} is damaged: {len(rows)} samples converted again"


def take_records_of_another(source: Source) -> str:
    first, second = sorted(source.latest.glob("*train.tfrecord-*"))
    one, other = first.read_bytes(), second.read_bytes()
    size = min(len(one), len(other))
    first.write_bytes(other[:size] + one[size:])
    return f"{first.name} is damaged: "


def damage_all(source: Source) -> str:
    for name in source.versions:
        (source.output / name / "manifest.json").write_text("{}")
    return f"version {source.versions[0]} is damaged"


@pytest.mark.any_workers
@pytest.mark.parametrize("change", [*(remove_folder, remove_latest, zero_manifest), exchange_offsets,
                                    take_records_of_another, damage_all], ids=lambda one: one.__name__)  # fmt: skip
def test_what_is_whole_is_reused_and_the_note_says_why_not_more(hurt, scratch, run, verify, change):
    names, told = hurt.versions, change(hurt)
    of_version = change in (remove_folder, remove_latest, zero_manifest, damage_all)
    assert (f"note: {told}" in run("status", f"--output={hurt.output}").out) == of_version
    ran = hurt.build(*RAW)
    assert ran.code == 0, ran.err
    assert f"note: {told}" in ran.out
    assert content_of(hurt.latest) == scratch
    assert verify(hurt.latest).code == 0
    if change is damage_all:
        assert hurt.versions == [*names, hurt.latest.name]
        assert hurt.changes["note"] == "no earlier version is whole: there is nothing to compare it with"
    elif of_version:
        assert hurt.counts()["copied"] >= SAMPLES - 2
    else:
        # Samples whose record or index row is damaged count as changed.
        assert hurt.counts().keys() == {"copied", "changed"}


@pytest.mark.parametrize("pattern", ["*.tfrecord-*", "index/*.parquet", "features.json"])
def test_an_unchanged_input_replaces_a_version_with_missing_files(hurt, scratch, pattern):
    assert hurt.build(*RAW).code == 0
    newest = hurt.latest
    next(newest.glob(pattern)).unlink()
    assert hurt.build(*RAW).code == 0
    assert hurt.latest != newest
    assert content_of(hurt.latest) == scratch
    # LATEST names the whole version again that the input would make.
    newest = hurt.latest
    (hurt.output / "LATEST").write_text("20990101T000000Z\n")
    ran = hurt.build(*RAW)
    assert "nothing has changed" in ran.out
    assert "note: LATEST names 20990101T000000Z, which is missing or unfinished" in ran.err
    assert hurt.latest == newest


@pytest.mark.parametrize("size", [None, 0, 7])
def test_a_damaged_list_of_duplicates_ends_no_build(source_of, tmp_path, size):
    source = source_of(9)
    shutil.copy(source.folder / "cat/000.png", source.folder / "cat/copy.png")
    assert source.build().code == 0
    path = source.latest / "duplicates.jsonl"
    assert path.read_bytes()
    if size is None:
        path.unlink()
    else:
        os.truncate(path, size)
    source.put("dog/new.png", 101)
    ran = source.build("--guard=off")
    assert ran.code == 0, ran.err
    assert source.counts()["added"] == 1
    assert content_of(source.latest) == from_scratch(source, tmp_path / "scratch", "--guard=off")
