"""Versions that take over what has not changed: what is decoded again, and that the result is that of a new build."""

from __future__ import annotations

import json
import os
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.dataset.dataset import DatasetRef
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.blocks.reuse import BlockReuse, ReusePlan
from tests.beam_pipelines.version_builds import CLASSES, Source, content_of, from_scratch, make_source

PER_CLASS = 30
ALL = PER_CLASS * len(CLASSES)


@pytest.fixture(scope="module")
def first(tmp_path_factory, picture, save, convert) -> Source:
    """A first version; tests work on copies."""
    root = tmp_path_factory.mktemp("first")
    source = make_source(root, ALL, picture=picture, save=save, convert=convert)
    (root / "in/cat/broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    assert source.build("--max_failures=0.1").code == 0
    return source


@pytest.fixture
def source(first, tmp_path) -> Source:
    shutil.copytree(first.folder, tmp_path / "in")  # with the times of the files
    shutil.copytree(first.output, tmp_path / "out")
    # The manifest names the input, and records know where their images were; the keys are the same.
    return Source(tmp_path / "in", tmp_path / "out", first.convert)


def test_the_same_input_makes_no_new_version(first):
    ran = first.build("--max_failures=0.1")
    assert ran.code == 0
    assert ran.out == f"nothing has changed since dataset: {first.latest}\n"
    assert len(first.versions) == 1
    assert not (first.output / ".build").exists()


def test_status_says_that_the_last_run_found_nothing_new(source, run):
    source.build("--max_failures=0.1")
    version = source.latest.name
    (line,) = [line for line in run("status", source.output).out.splitlines() if line.startswith("last run: ")]
    assert re.fullmatch(rf"last run: [\d-]+T[\d:]+Z, took \d+ s, and found nothing new since {version}", line)
    assert json.loads(run("status", source.output, "--json").out)["last_unchanged"]["version"] == version
    (source.folder / "cat/000.png").unlink()
    assert source.build("--max_failures=0.1").code == 0
    assert "last run" not in run("status", source.output).out


@pytest.mark.any_workers
def test_unchanged_samples_are_copied_and_the_result_is_that_of_a_build_from_scratch(source, picture, save, tmp_path):
    save(source.folder / "dog/new.png", picture(1000, 30, 40))  # added
    save(source.folder / "cat/000.png", picture(1001, 30, 40))  # changed
    (source.folder / "cat/003.png").unlink()  # removed
    (source.folder / "cat/006.png").rename(source.folder / "owl/006.png")  # of another class, so another key
    os.utime(source.folder / "owl/002.png", (1, 1))  # another time, the same bytes
    ran = source.build("--max_failures=0.1", "--accept=class_shares")
    assert ran.code == 0, ran.err
    assert source.counts() == {
        "copied": ALL - 4, "reserialized": 1, "changed": 1, "added": 2, "removed": 2, "failed": 1
    }  # fmt: skip
    assert content_of(source.latest) == from_scratch(source, tmp_path / "new", "--max_failures=0.1")
    assert f"copied {ALL - 4}, reserialized 1, changed 1, added 2, removed 2, failed 1, moved 0" in ran.out
    changes = source.changes["changes"]
    assert {one["key"] for one in changes["removed"]["keys"]} == {"cat/003.png", "cat/006.png"}
    assert {one["key"]: one["class"] for one in changes["added"]["keys"]} == {
        "dog/new.png": "dog",
        "owl/006.png": "owl",
    }


def test_a_sample_that_failed_before_is_tried_again(source, picture, save):
    save(source.folder / "cat/broken.jpg", picture(7, 30, 40))
    assert source.build().code == 0
    assert source.counts() == {"copied": ALL, "added": 1}


def test_a_failure_that_stays_makes_no_new_version(source):
    # The fast check does not know whether it would fail again: the fingerprint of another file is new.
    broken = source.folder / "cat/broken.jpg"
    before = broken.stat()
    broken.write_bytes(broken.read_bytes())
    os.utime(broken, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.build("--max_failures=0.1").code == 0
    again = source.build("--max_failures=0.1")
    assert "nothing has changed" in again.out


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--image_size=20", "image_size changed from 24x24 to 20x20"),
        ("--jpeg_quality=50", "jpeg_quality changed from 95 to 50"),
        ("--seed=7", "seed changed from 0 to 7"),
    ],
)
def test_with_another_setting_nothing_is_reused_and_the_summary_says_which(source, tmp_path, flag, said):
    ran = source.build("--max_failures=0.1", flag, "--guard=off")
    assert ran.code == 0, ran.err
    assert f"nothing was reused: {said}" in ran.out
    assert content_of(source.latest) == from_scratch(source, tmp_path / "new", "--max_failures=0.1", flag)
    assert content_of(source.latest)["manifest"]["records"] == ALL


def test_another_layout_takes_the_images_over(source, tmp_path):
    # The fields of the image stay; the label becomes a list.
    (tmp_path / "spec.yaml").write_text("layout: {image: image.encoded, label: labels.index, filename: filename}")
    spec = f"--spec={tmp_path / 'spec.yaml'}"
    assert source.build("--max_failures=0.1", spec, "--guard=off").code == 0
    assert source.counts() == {"reserialized": ALL, "failed": 1}
    assert content_of(source.latest) == from_scratch(source, tmp_path / "new", "--max_failures=0.1", spec)


def test_by_content_a_copy_with_other_times_is_the_same(source):
    flags = ("--max_failures=0.1", "--fingerprint=content", "--guard=off")
    assert source.build(*flags).code == 0
    for path in source.folder.rglob("*.png"):
        os.utime(path, (1, 1))
    ran = source.build(*flags)
    assert "nothing has changed" in ran.out
    assert len(source.versions) == 2


def test_reuse_none_converts_everything(source, tmp_path):
    os.utime(source.folder / "owl/002.png", (1, 1))
    assert source.build("--max_failures=0.1", "--reuse=none").code == 0
    assert content_of(source.latest)["manifest"]["median_pixels"]
    assert "changes" not in source.changes


def test_a_damaged_record_is_converted_again(source, tmp_path):
    shard = next(source.latest.glob("pets-train.tfrecord-*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    os.utime(source.folder / "owl/002.png", (1, 1))
    assert source.build("--max_failures=0.1").code == 0
    assert source.counts() == {"copied": ALL - 2, "reserialized": 1, "changed": 1, "failed": 1}
    assert content_of(source.latest) == from_scratch(source, tmp_path / "new", "--max_failures=0.1")


def test_any_earlier_dataset_can_be_reused(source, tmp_path, convert):
    words = [f"--input={source.folder}", f"--output={tmp_path / 'plain'}", "--name=pets", "--image_size=24"]
    ran = convert(*words, "--splits=train=0.8,test=0.2", "--max_failures=0.1", f"--reuse={source.output}")
    assert ran.code == 0, ran.err
    assert f"records: copied {ALL}" in ran.out


def test_a_label_in_a_table_changes_without_decoding(source, tmp_path, convert):
    rows = [f"in/{path.relative_to(source.folder)}" for path in sorted(source.folder.rglob("*.png"))]
    table = tmp_path / "labels.csv"

    def build(labels: list[str]):
        lines = [f"{path},{label}" for path, label in zip(rows, labels, strict=True)]
        table.write_text("\n".join(["image,label", *lines]) + "\n")
        words = [f"--input={table}", f"--output={tmp_path / 'table'}", "--image_size=24", "--versioned"]
        return convert(*words, "--guard=off")

    labels = ["a" if number % 2 else "b" for number in range(ALL)]
    assert build(labels).code == 0
    ran = build(["a", "b", *labels[2:]])
    assert ran.code == 0, ran.err
    assert "copied 88, reserialized 2, changed 0" in ran.out


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
    tmp_path, save, convert, form, column, flags
):
    for name, value in (("a", 1), ("b", 2)):
        path = save(tmp_path / f"{name}.bmp", np.full((8, 8), value, np.uint8))
        os.utime(path, (1, 1))
    row = {"id": "1", "image": "a.bmp", "mask": "a.bmp", "right": "a.bmp", "label": "x"}
    table = tmp_path / f"t.{form}"

    def build(output: str, row: dict[str, str], *words: str) -> bytes:
        if form == "csv":
            table.write_text("\n".join(map(",".join, (row, row.values()))) + "\n")
        else:
            images = pa.array(
                [{"bytes": None, "path": row["image"]}], pa.struct({"bytes": pa.binary(), "path": pa.string()})
            )
            pq.write_table(pa.table({"image": images, "label": [row["label"]]}), table)
        ran = convert(f"--input={table}", f"--output={tmp_path / output}", "--image_encoding=png", *flags, *words)
        assert ran.code == 0, ran.err
        return (tmp_path / output / "t-train.tfrecord-00000-of-00001").read_bytes()

    first = build("first", row)
    second = build("second", {**row, column: "b.bmp"}, f"--reuse={tmp_path / 'first'}")
    assert second != first
    assert second == build("new", {**row, column: "b.bmp"})


def test_a_dataset_that_is_replaced_while_it_is_reused_ends_the_build(first):
    plan = ReusePlan(
        DatasetRef(str(first.latest), "0" * 64), seed=0, blocks={"train": 1}, takes_images=True, hashes_files=False
    )
    with pytest.raises(BuildError, match="another dataset has replaced it"):
        BlockReuse(plan, lambda *_: None, ("train", 0))
