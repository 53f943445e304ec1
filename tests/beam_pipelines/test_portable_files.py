"""Published files say nothing about the machine: an input in another folder gives the same bytes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.writers import WRITERS, Settings, flags_of

HOMES = ("home/somebody/work", "mnt/disk")
STEPS = """
def clean(sample):
    if sample.key.endswith("a1.png"):
        raise ValueError("a bug")
    return sample
"""


def published(out: Path) -> dict[str, bytes]:
    """Name -> content of all files of a dataset."""
    return {str(file.relative_to(out)): file.read_bytes() for file in sorted(out.rglob("*")) if file.is_file()}


def readable(name: str, data: bytes, out: Path) -> bytes:
    """The content of a file, of Parquet decoded."""
    if not name.endswith(".parquet"):
        return data
    table = pq.read_table(out / name)
    return repr((table.to_pylist(), table.schema, table.schema.metadata)).encode()


@pytest.fixture
def build_in_both(tmp_path, build):
    """Builds with an input below two folders of different names; checks that the files are equal and name neither."""

    def build_both(write, *others) -> Path:
        flags = [*flags_of(write(tmp_path / HOMES[0] / "data")), "--image_size=24", *others]
        (tmp_path / HOMES[1]).mkdir(parents=True)
        shutil.copytree(tmp_path / HOMES[0] / "data", tmp_path / HOMES[1] / "data")
        outs = [build(tmp_path / home / "out", *(flag.replace(HOMES[0], home) for flag in flags)) for home in HOMES]
        one, other = map(published, outs)
        assert one.keys() == other.keys()
        assert [name for name in one if one[name] != other[name]] == []
        for name, data in one.items():
            assert str(tmp_path).encode() not in readable(name, data, outs[0]), name
        return outs[0]

    return build_both


@pytest.mark.nightly
@pytest.mark.report
@pytest.mark.parametrize("form", WRITERS)
def test_every_kind_of_source_gives_the_same_files_in_every_folder(build_in_both, form):
    splits = [] if "split" in WRITERS[form].holds else ["--splits=train=0.8,test=0.2"]
    build_in_both(WRITERS[form].make, *splits)


@pytest.mark.report
def test_failures_duplicates_and_tracebacks_name_no_folder(build_in_both, tmp_path, monkeypatch):
    (tmp_path / "cleaning_steps.py").write_text(STEPS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(root: Path) -> Settings:
        settings = WRITERS["csv_table"].make(root)
        (root / "a3.png").write_bytes((root / "a3.png").read_bytes()[:500])
        (root / "a2.png").unlink()
        shutil.copy(root / "a0.png", root / "a5.png")
        with (root / "table.csv").open("a") as file:
            file.write("../outside.png,cat,train,1,x\n")
        return settings

    out = build_in_both(write, "--max_failures=0.9", "--map=cleaning_steps:clean")
    failures = [json.loads(line) for line in (out / "failures.jsonl").read_text().splitlines()]
    assert {failure["reason"] for failure in failures} == {"truncated", "unreadable", "outside_root", "map_error"}
    (trace, *_) = (failure["traceback"] for failure in failures if "traceback" in failure)
    assert 'File "cleaning_steps.py", line 4, in clean' in trace
    assert manifest_of(out)["duplicates"]["groups"]


def raw_pictures(folder: Path, seed: int) -> None:
    """Pictures whose sizes and times are equal for every seed."""
    chance = np.random.default_rng(seed)
    for number in range(12):
        path = folder / f"{'ab'[number % 2]}/{number}.bmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(chance.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(path)
        os.utime(path, (1_700_000_000, 1_700_000_000))


def nightly(convert, folder: Path, out: Path, *words: str):
    ran = convert(f"--input={folder}", f"--output={out}", "--versioned", "--image_size=16", *words)
    assert ran.code == 0, ran.err
    return out / (out / "LATEST").read_text().strip()


@pytest.mark.parametrize("is_other", [True, False])
def test_sizes_and_times_in_another_folder_say_nothing_about_the_bytes(tmp_path, convert, is_other):
    raw_pictures(tmp_path / "one/photos", 0)
    raw_pictures(tmp_path / "two/photos", int(is_other))
    first = nightly(convert, tmp_path / "one/photos", tmp_path / "out")
    second = nightly(convert, tmp_path / "two/photos", tmp_path / "out")
    # A version of the same bytes would repeat the newest one.
    assert (second == first) is not is_other
    assert manifest_of(second)["reuse"]["converted"] == 12
    scratch = nightly(convert, tmp_path / "two/photos", tmp_path / "new")
    assert [shard["crc32c"] for shard in manifest_of(second)["shards"]] == [
        shard["crc32c"] for shard in manifest_of(scratch)["shards"]
    ]


def test_a_version_names_the_folders_of_no_machine(tmp_path, convert):
    raw_pictures(tmp_path / "one/photos", 0)
    nightly(convert, tmp_path / "one/photos", tmp_path / "out")
    (tmp_path / "one/photos/a/0.bmp").unlink()
    version = nightly(convert, tmp_path / "one/photos", tmp_path / "out", "--accept=all")
    changes = json.loads((version / "changes.json").read_text())
    assert (changes["format"], changes["compared_with"]) == (1, changes["versions"][-1])
    for name, data in published(version).items():
        assert str(tmp_path).encode() not in readable(name, data, version), name


def test_an_unchanged_folder_is_trusted_by_sizes_and_times(tmp_path, convert):
    raw_pictures(tmp_path / "photos", 0)
    nightly(convert, tmp_path / "photos", tmp_path / "out")
    raw_pictures(tmp_path / "photos", 1)
    (tmp_path / "photos/a/new.bmp").write_bytes((tmp_path / "photos/b/1.bmp").read_bytes())
    version = nightly(convert, tmp_path / "photos", tmp_path / "out", "--accept=all")
    # Had the builder read the files, it would have converted all of them.
    assert manifest_of(version)["reuse"] == {"copied": 12, "reserialized": 0, "converted": 1}
