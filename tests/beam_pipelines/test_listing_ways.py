"""Inputs that workers list in parts, or the job of a build: the dataset is the one of a launcher that lists.

Refusals and changes are those of a launcher that lists, too.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.writers import WRITERS, flags_of

FLAGS = ("--image_size=8", "--max_failures=1", "--name=it", "--no_report", "--overwrite")
ROWS = 300


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, broken):
    """A folder of splits, links in a circle and elsewhere, names of all kinds and broken files; tables; an archive."""
    folder = tmp_path_factory.mktemp("parts")
    root = folder / "photos"
    shutil.copytree(broken, root / "train", symlinks=True, ignore=shutil.ignore_patterns("*.png", "without_a_class*"))
    shutil.copytree(broken / "cat", root / "test/cat", ignore=shutil.ignore_patterns("*.jpg"))
    shutil.copytree(broken / "dog", folder / "elsewhere", ignore=shutil.ignore_patterns("*.png", "in a*"))
    (root / "train/rabbit").symlink_to(folder / "elsewhere")
    (root / "train/dog/all").symlink_to(root)
    os.link(root / "train/cat/cat02.jpg", os.path.join(root, "train/cat/sm\udce9.jpg"))
    os.mkdir(os.path.join(os.fspath(root), "train/dog/h\udce4sslich"))
    shutil.copyfile(root / "train/cat/cat02.jpg", os.path.join(root, "train/dog/h\udce4sslich/1.jpg"))
    write_tables(folder)
    with tarfile.open(folder / "in.tar", "w") as archive:
        archive.add(root / "train/cat", "cat")
        archive.add(root / "train/cat", "dog")
    return folder


def write_tables(folder: Path) -> None:
    """Writes rows of quoted cells with line breaks, and some splits that are none, in three formats; and boxes."""
    splits = [("train", "test", "not a split!")[min(at % 7, 2) if at < 30 else 0] for at in range(ROWS)]
    columns = {
        "name": [f'the "{at}",\nof many' for at in range(ROWS)],
        "label": [f"class {at % 3}" for at in range(ROWS)],
        "split": splits,
    }
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    with (folder / "rows.csv").open("w", newline="") as file:
        written = csv.DictWriter(file, list(columns), lineterminator="\n")
        written.writeheader()
        written.writerows(rows)
    layout = {"name": {"field": "column.name", "type": "bytes"}, "label": {"field": "label.index", "type": "int64"}}
    (folder / "spec.json").write_text(json.dumps({"layout": layout}))
    boxes = [f"photos/train/cat/cat{at:02d}.jpg,1,2,3,4\n" for at in range(2, 40)] * 4
    header = "image,x,y,width,height\n"
    (folder / "a.csv.gz").write_bytes(gzip.compress((header + "".join(boxes[:10])).encode()))
    (folder / "b.csv").write_text(header + "".join(boxes[10:]))


REQUESTS = {
    "folders": "--input={}/photos",
    "excluded": "--input={}/photos --exclude=*deeper* --limit=20",
    "glob that crosses folders": "--input={}/photos/**/*.jpg",
    "glob": "--input={}/photos/train/*/*.jpg",
    "several": "--input=train={0}/photos/train/cat --input=train={0}/photos/train/dog --input=test={0}/photos/test "
    "--label_pattern=(?P<label>cat|dog)",
    "splits of inputs": "--input=train={0}/photos/train --input=test={0}/photos/test",
    "fractions": "--input={}/photos/train --splits=train=0.8,test=0.2 --stratify",
    "classes": "--input={}/photos/train --classes=cat,rabbit",
    "pattern": "--input={}/photos --label_pattern=/(?P<label>[a-z]+)[^/]*$",
    "named split folders": "--input={}/photos --splits=training=train",
    **{
        f"{kind} {flags}": f"--input={{0}}/rows.{kind} --spec={{0}}/spec.json {flags}"
        for kind in ("parquet", "csv", "jsonl")
        for flags in ("", "--limit=100", "--split_column= --splits=train=0.8,test=0.2 --stratify")
    },
    # The gzip table is listed as a whole.
    "boxes": "--input={0}/a.csv.gz --input={0}/b.csv --source=csv --layout=detection",
}


@pytest.mark.any_workers
@pytest.mark.parametrize("name", REQUESTS)
def test_the_dataset_is_the_same(inputs, tmp_path, build, in_parts, snapshot, name):
    words = REQUESTS[name].format(inputs).split()
    expected = snapshot(build(tmp_path / "out", *words, *FLAGS))
    counts = in_parts()
    assert snapshot(build(tmp_path / "out", *words, *FLAGS)) == expected
    assert counts[-1] > 1
    if ".parquet" in words[0] or ".jsonl" in words[0]:
        assert manifest_of(tmp_path / "out")["listed"] == (100 if "--limit=100" in words else ROWS)


def test_workers_list_archives_and_the_launcher_small_inputs_and_those_with_masks(
    inputs, tmp_path, build, in_parts, picture, save
):
    counts = in_parts()
    for number in range(8):
        save(tmp_path / f"images/{number}.png", picture(number, 8, 8))
        save(tmp_path / f"masks/{number}.png", picture(number, 8, 8, 1))
        save(tmp_path / f"few/{number % 2}/{number % 4}.png", picture(number, 8, 8))
    masks = [f"--input={tmp_path / 'images'}", f"--mask_root={tmp_path / 'masks'}", "--layout=segmentation"]
    for words in (masks, [f"--input={tmp_path / 'few'}"]):
        build(tmp_path / "out", *words, *FLAGS)
    assert not counts
    build(tmp_path / "out", f"--input={inputs}/in.tar", *FLAGS)
    assert counts == [1]


REFUSED = (
    "--input={}/photos --include=nothing",
    "--input={}/photos --class_names=cat",
    "--input={}/photos --num_shards=1000",
    "--input={}/photos/train --classes=horse",
    "--input={0}/rows.parquet --spec={0}/spec.json --include=nothing",
    "--input={}/in.tar --class_names=horse",
    # No part needs to be listed.
    "--input={}/photos --splits=training=nowhere",
)


def test_a_refused_input_leaves_nothing_and_is_refused_alike(inputs, tmp_path, convert, in_parts):
    found = []
    for is_by_workers in (False, True):
        counts = in_parts() if is_by_workers else []
        for words in REFUSED:
            ran = convert(f"--output={tmp_path / 'out'}", "--no_report", *words.format(inputs).split())
            found.append((ran.code, ran.err))
            assert not (tmp_path / "out").exists()
    assert found[: len(REFUSED)] == found[len(REFUSED) :]
    assert {code for code, _ in found} == {2}
    assert len(counts) == len(REFUSED) - 1


@pytest.mark.any_workers
@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("dog", 2, "dog cannot be read: No such file or directory; make it readable, "),
        ("rows.parquet", 1, "rows.parquet has changed while it was read; run the same command again"),
    ],
)
def test_what_changes_before_workers_list_it_is_named(inputs, tmp_path, convert, in_parts, name, code, says):
    folder = tmp_path / "in"
    for one in ("cat", "dog"):
        shutil.copytree(inputs / "photos/train/cat", folder / one)
    shutil.copy(inputs / "rows.parquet", tmp_path)

    def change() -> None:
        shutil.rmtree(folder / "dog")
        os.truncate(tmp_path / "rows.parquet", 3000)

    in_parts(before=change)
    words = [f"--input={folder}"] if name == "dog" else [f"--input={tmp_path / name}", "--layout=columns"]
    ran = convert(*words, f"--output={tmp_path / 'out'}")
    assert ran.code == code
    assert f"{tmp_path}/" in ran.err
    assert says in ran.err
    assert code == 1 or not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["in", "in.csv"])
def test_a_changed_image_is_found_and_an_unchanged_input_makes_no_version(
    tmp_path, build, in_parts, picture, save, name
):
    rows = []
    for number in range(12):
        rows.append(f"in/{number % 2}/{number}.png,{number % 2},{'x' * 200}\n")
        save(tmp_path / f"in/{number % 2}/{number}.png", picture(number, 8, 8))
        (tmp_path / f"in/{number % 2}/{number}.log").touch()
    (tmp_path / "in.csv").write_text("image,label,note\n" + "".join(rows))
    counts = in_parts()
    for versions in (1, 1, 2):
        build(tmp_path / "out", f"--input={tmp_path / name}", "--versioned", "--image_encoding=png", "--no_report")
        assert len(list(tmp_path.glob("out/*/_SUCCESS"))) == versions
        if len(counts) == 2:
            save(tmp_path / "in/1/5.png", picture(100, 9, 9))
    assert len(counts) == 3
    assert min(counts) > 1


# The job of a build.


FUNCTIONS = """
import apache_beam as beam
import numpy as np

from beam_tfrecords import Sample

def rows(part):
    for number in range(4):
        yield Sample(f"{part}/{number}", image=np.full((8, 8, 3), number * 30, np.uint8), label=part)

def read(root):
    return root | beam.Create(["cat", "dog"]) | beam.FlatMap(rows)

def darker(sample):
    return sample.replace(image=sample.image // 2)
"""


@pytest.mark.nightly
@pytest.mark.local_runner
@pytest.mark.parametrize("name", [*sorted(WRITERS), "a function and a map", "a pipeline"])
def test_a_job_that_lists_makes_the_same_dataset(name, tmp_path, monkeypatch, build, in_job):
    (tmp_path / "job_rows.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    if name in WRITERS:
        flags = flags_of(WRITERS[name].make(tmp_path / "in"))
    else:
        function = ["--input=job_rows:rows", "--parts=cat,dog", "--map=job_rows:darker"]
        flags = function if "map" in name else ["--input=job_rows:read"]
    flags = [*flags, "--name=same", "--max_failures=0.5"]
    there = build(tmp_path / "there", *flags)
    in_job()
    found = build(tmp_path / "in_job", *flags)
    assert shards_of(found) == shards_of(there)
    one, other = manifest_of(found), manifest_of(there)
    for key in ("splits", "class_names", "input_fingerprint", "skipped", "notes", "read_with"):
        assert one.get(key) == other.get(key)
