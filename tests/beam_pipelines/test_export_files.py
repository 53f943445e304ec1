"""`export`: the files that it writes, their names, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import RequestError, open_dataset
from tests.annotated_inputs import PICTURES, coco_of, save_pictures, write_coco
from tests.framing import write_examples
from tests.published import read_published
from tests.trees import write_tree
from tests.writers import WRITERS, flags_of

DETECTION = [f"detection{more}" for more in ("", "_masks", "_polygons", "_keypoints")]


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def pets(tmp_path, build) -> Path:
    write_tree(tmp_path / "pets", "cat/{0..3}.png dog/{4..7}.png")
    words = [f"--input={tmp_path / 'pets'}", "--splits=train=0.5,test=0.5", "--name=pets"]
    return build(tmp_path / "out", *words)


def test_images_are_in_folders_of_split_and_class_with_the_stored_bytes(pets, run, tmp_path):
    ran = run("export", f"--dataset={pets}", f"--to={tmp_path / 'folder'}")
    assert ran.code == 0
    rows = pq.read_table(tmp_path / "folder/samples.parquet").to_pylist()
    assert next(iter(rows[0])) == "image"
    stored = {(one.split, one.key): one.values for one in read_published(pets).records}
    for row in rows:
        label, _, name = row["key"].partition("/")
        assert row["image"] == f"{row['split']}/{label}/{name.removesuffix('.png')}.jpg"
        assert row["label"] == label
        (data,) = stored[row["split"], row["key"]]["image"]
        assert (tmp_path / "folder" / row["image"]).read_bytes() == data
    assert files_below(tmp_path / "folder") == sorted(["samples.parquet", *(row["image"] for row in rows)])
    assert f"{tmp_path / 'folder'}: 8 records, 8 files and a table" in ran.out


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("paired_folders", ["left/train/cat/cat_a0.jpg", "right/train/cat/cat_a0.jpg"]),
        ("image_columns", ["left/train/cat/a0.jpg", "views/train/cat/a0/000.jpg"]),
        ("mask_folder", ["mask/train/a0.png", "train/a0.jpg"]),
        ("coco", ["annotations/instances_train.json", "train/a0.jpg"]),
    ],
)
def test_each_feature_of_files_has_a_folder(run, build, tmp_path, form, expected):
    first = build(tmp_path / "first", *flags_of(WRITERS[form].make(tmp_path / "in")), "--name=x")
    run("export", f"--dataset={first}", f"--to={tmp_path / 'folder'}")
    assert {*expected} <= {*files_below(tmp_path / "folder")}


def test_a_part_is_exported(pets, run, tmp_path):
    run("export", str(pets), f"--to={tmp_path / 'cats'}", "--where=label = 'cat'")
    rows = pq.read_table(tmp_path / "cats/samples.parquet").to_pylist()
    assert {row["label"] for row in rows} == {"cat"}
    assert len(rows) == 4
    run("export", f"--dataset={pets}", f"--to={tmp_path / 'test'}", "--split=test")
    rows = pq.read_table(tmp_path / "test/samples.parquet").to_pylist()
    assert len(rows) == open_dataset(pets).splits["test"]
    assert {row["split"] for row in rows} == {"test"}


def test_the_table_is_an_input_as_any_other(pets, run, build, tmp_path):
    run("export", f"--dataset={pets}", f"--to={tmp_path / 'folder'}")
    table = f"--input={tmp_path / 'folder/samples.parquet'}"
    second = build(tmp_path / "again", table, "--key_column=key", "--image_encoding=keep", "--name=pets")
    for one, other in zip(read_published(pets).records, read_published(second).records, strict=True):
        assert (other.split, other.key) == (one.split, one.key)
        assert [other.values[name] for name in ("image", "label")] == [one.values[name] for name in ("image", "label")]


def test_python_exports_too(pets, tmp_path):
    open_dataset(pets).export(tmp_path / "folder", where="label = 'dog'")
    assert pq.read_table(tmp_path / "folder/samples.parquet").num_rows == 4
    with pytest.raises(RequestError, match="not empty"):
        open_dataset(pets).export(tmp_path / "folder")


def test_a_folder_with_files_is_refused_and_kept(pets, run, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/mine.txt").write_text("mine")
    run("export", f"--dataset={pets}", f"--to={tmp_path / 'folder'}").refused("output_exists", says=["mine.txt"])
    run("export", f"--dataset={pets}", f"--to={tmp_path / 'folder/mine.txt'}").refused("output_exists", says=["file"])
    assert files_below(tmp_path / "folder") == ["mine.txt"]
    run("export", f"--dataset={pets}", f"--to={pets}").refused("overlapping_folders", says=["inside the dataset"])
    run("export", f"--dataset={pets}", f"--to={pets}/new").refused("overlapping_folders", says=["inside the dataset"])
    run("export", f"--dataset={pets}", "--to=/proc/none/here").refused(
        "output_not_writable", says=["cannot be written"]
    )
    assert open_dataset(pets).verify() == []


def test_an_export_that_ends_too_early_says_so(pets, run, tmp_path):
    (shard,) = pets.glob("*train*")
    data = bytearray(shard.read_bytes())
    data[-30] ^= 1
    shard.write_bytes(data)
    to = f"--to={tmp_path / 'folder'}"
    ran = run("export", f"--dataset={pets}", to)
    assert ran.code == 1
    assert "verify" in ran.err
    assert not (tmp_path / "folder/samples.parquet").exists()
    run("export", f"--dataset={pets}", to).refused("output_exists", says=["has not ended", "delete"])


def test_a_shard_that_is_not_the_published_one_is_named(pets, run, tmp_path):
    (shard,) = pets.glob("*train*")
    write_examples(shard, [{"image": b"no image", "label": 0, "filename": b"x"}])
    ran = run("export", f"--dataset={pets}", f"--to={tmp_path / 'folder'}")
    assert ran.code == 1
    assert f"{shard.name}" in ran.err
    shard.unlink()
    ran = run("export", f"--dataset={pets}", f"--to={tmp_path / 'other'}")
    assert ran.code == 1
    assert f"{shard.name}" in ran.err


def test_records_of_others_are_refused_with_a_command_that_works(run, build, tmp_path):
    path = WRITERS["tfrecord"].make(tmp_path / "in")["input"]
    ran = run("export", f"--dataset={path}", f"--to={tmp_path / 'folder'}")
    ran.refused("records_of_others", "output")
    (command,) = re.findall(r": run `(.*)`, then export", ran.err)
    out = build(tmp_path / "folder-tfrecords", *shlex.split(command)[2:-1])
    assert run("export", f"--dataset={out}", f"--to={tmp_path / 'folder'}").code == 0
    write_examples(tmp_path / "x.tfrecord", [{"a": 1}])
    ran = run("export", f"--dataset={tmp_path / 'x.tfrecord'}", "--to=folder")
    ran.refused("records_of_others", "output", says=["says what it needs"])


# Boxes


def test_boxes_are_exported_as_coco(run, build, tmp_path):
    save_pictures(tmp_path / "in")
    content = coco_of()
    for one in content["annotations"]:
        x, y, width, height = one["bbox"]
        one["segmentation"] = [[x, y, x + width, y, x + width, y + height]]
        one["keypoints"] = [x, y, 2, x + width - 1, y + height - 1, 1, 0, 0, 0]
    path = write_coco(tmp_path / "in/a.json", annotations=content["annotations"])
    words = [f"--input={path}", f"--image_root={tmp_path / 'in'}", "--image_encoding=keep", "--name=x"]
    for layout in ("detection_polygons", "detection_masks", "detection_keypoints"):
        first = build(tmp_path / layout, *words, f"--layout={layout}")
        folder = tmp_path / f"{layout}_folder"
        assert run("export", f"--dataset={first}", f"--to={folder}").code == 0
        coco = f"--input={folder / 'annotations/instances_train.json'}"
        second = build(
            tmp_path / f"{layout}_again", coco, f"--image_root={folder}", f"--layout={layout}", "--image_encoding=keep"
        )
        now = {one.key: one.values for one in read_published(second).records}
        assert len(now) == len(PICTURES)
        for record in read_published(first).records:
            other = now[f"train/{record.key}"]
            for name, values in record.values.items():
                if name in ("image/source_id", "image/filename"):
                    continue
                if values and isinstance(values[0], float):
                    np.testing.assert_allclose(other[name], values, rtol=1e-5, atol=1e-6)
                else:
                    assert other[name] == values, name


@pytest.mark.parametrize("layout", DETECTION)
def test_images_without_objects_are_exported(run, build, tmp_path, layout):
    save_pictures(tmp_path / "in")
    content = coco_of()
    for one in content["annotations"]:
        x, y, width, height = one["bbox"]
        one |= {"segmentation": [[x, y, x + width, y, x + width, y + height]], "keypoints": [x, y, 2]}
    path = write_coco(tmp_path / "in/a.json", annotations=content["annotations"])
    words = [f"--input={path}", f"--image_root={tmp_path / 'in'}", f"--layout={layout}", "--name=x"]
    first = build(tmp_path / "first", *words)
    assert run("export", f"--dataset={first}", f"--to={tmp_path / 'folder'}", "--where=objects = 0").code == 0
    rows = pq.read_table(tmp_path / "folder/samples.parquet").to_pylist()
    assert 0 < len(rows) < open_dataset(first).num_records
    assert [row["objects"] for row in rows] == [[]] * len(rows)


def test_a_compressed_dataset_is_refused(run, build, tmp_path):
    flags = flags_of(WRITERS["coco"].make(tmp_path / "in"))
    first = build(tmp_path / "first", *flags, "--compression=gzip", "--image_size=8")
    run("export", f"--dataset={first}", f"--to={tmp_path / 'folder'}").refused("compressed_shards")
    assert not (tmp_path / "folder").exists()


def test_objects_without_boxes_are_refused(run, build, tmp_path):
    flags = flags_of(WRITERS["coco"].make(tmp_path / "in"))
    (tmp_path / "layout.yaml").write_text("layout: {image: image.encoded, classes: objects.index}")
    first = build(tmp_path / "first", *flags, f"--spec={tmp_path / 'layout.yaml'}")
    run("export", f"--dataset={first}", f"--to={tmp_path / 'folder'}").refused("layout_not_exported")
    assert not (tmp_path / "folder").exists()


def test_columns_named_as_those_of_the_table_keep_their_values(run, build, tmp_path, picture, save):
    save(tmp_path / "0.png", picture(0, 20, 24))
    row = {"image": "0.png", "height": 7, "key": 3, "objects": {"bbox": [[12, 3, 7, 5]], "category": ["cat"]}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    layout = "--layout=detection,height:int64,key:int64"
    first = build(tmp_path / "first", f"--input={tmp_path / 'rows.jsonl'}", layout, "--name=x")
    folder = tmp_path / "folder"
    run("export", f"--dataset={first}", f"--to={folder}")
    (exported,) = pq.read_table(folder / "samples.parquet").to_pylist()
    assert (exported["height"], exported["key_value"], exported["index_height"]) == (7, 3, 20)
    (image,) = json.loads((folder / "annotations/instances_train.json").read_text())["images"]
    assert (image["height"], image["width"]) == (20, 24)


def test_values_that_are_no_text_stay(run, build, tmp_path):
    table = pa.table({"a": pa.array([b"text", b"\xff\x00", b"\0"], pa.binary()), "b": ["x", "y", "z"]})
    pq.write_table(table, tmp_path / "rows.parquet")
    first = build(tmp_path / "first", f"--input={tmp_path / 'rows.parquet'}", "--layout=columns", "--name=x")
    run("export", f"--dataset={first}", f"--to={tmp_path / 'folder'}")
    assert files_below(tmp_path / "folder") == ["samples.parquet"]
    found = pq.read_table(tmp_path / "folder/samples.parquet")
    assert (found.schema.field("a").type, found.schema.field("b").type) == (pa.binary(), pa.string())
    assert sorted(found["a"].to_pylist()) == sorted(table["a"].to_pylist())


# Names


def test_classes_and_keys_that_differ_by_case_have_files_of_their_own(run, build, tmp_path, picture, save):
    rows = []
    for number, (name, label) in enumerate([("A", "Cat"), ("a", "cat"), ("a", "Cat"), ("../up", "..")]):
        save(tmp_path / f"{number}.png", picture(number, 20, 24))
        rows.append({"image": f"{number}.png", "id": f"{name}/{number % 2}.png", "label": label})
    rows[1]["id"] = rows[0]["id"].lower()
    rows[2]["id"] = "a/2.png"
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first = build(tmp_path / "first", f"--input={tmp_path / 'rows.jsonl'}", "--key_column=id", "--name=x")
    run("export", f"--dataset={first}", f"--to={tmp_path / 'folder'}")
    images = [name for name in files_below(tmp_path / "folder") if name.endswith(".jpg")]
    assert len({name.casefold() for name in images}) == 4
    assert not any(".." in name for name in images)
