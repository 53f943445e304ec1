"""`--where`: samples that do not fulfil a condition are filtered, whatever the source."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from beam_tfrecords import open_dataset
from tests.annotated_inputs import PICTURES, save_pictures
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.each import each
from tests.identity_inputs import INPUTS, flags_of


def rows_of(out: Path) -> dict[str, dict]:
    """Key -> index row."""
    shards = open_dataset(out).shards
    return {row["key"]: row for shard in shards for row in pq.read_table(out / (shard.index or "")).to_pylist()}


def check_counts(out: Path) -> None:
    manifest = manifest_of(out)
    left = manifest["records"] + manifest["failures"] + manifest["filtered"] + manifest["dropped_duplicates"]
    assert left == manifest["listed"]


@pytest.fixture(scope="module")
def some_photos(photos, tmp_path_factory, build) -> tuple[Path, Path]:
    """Photos, and the dataset of all of them."""
    root = tmp_path_factory.mktemp("where")
    shutil.copytree(photos, root / "photos", ignore=shutil.ignore_patterns("*_0[4-6].jpg"))
    return root / "photos", build(root / "all", f"--input={root / 'photos'}", "--image_size=32", "--name=x")


CONDITIONS = {
    "label = 'cat'": lambda row: row["label"] == "cat",
    "label in ('cat', 'rocket') and height < 40": lambda row: row["label"] in ("cat", "rocket") and row["height"] < 40,
    "'cat' in labels or width > 45": lambda row: row["label"] == "cat" or row["width"] > 45,
    "'cat' not in labels": lambda row: row["label"] != "cat",
    "2 * width < 3 * height and 2 * height < 3 * width": lambda row: (
        2 * row["width"] < 3 * row["height"] and 2 * row["height"] < 3 * row["width"]
    ),
    "source_height >= 320 and source_width >= 320": lambda row: min(row["source_height"], row["source_width"]) >= 320,
    "brightness > 100 and contrast > 40": lambda row: row["brightness"] > 100 and row["contrast"] > 40,
    "sharpness < 2000": lambda row: row["sharpness"] < 2000,
    "key like 'cat/%_01%'": lambda row: row["key"].startswith("cat/") and "_01" in row["key"],
    "key not like '%_01.jpg' and split = 'train'": lambda row: not row["key"].endswith("_01.jpg"),
}


@each("where", CONDITIONS)
def test_a_build_keeps_what_a_reader_of_the_whole_finds(tmp_path, build, some_photos, where):
    folder, whole = some_photos
    out = build(tmp_path / "out", f"--input={folder}", "--image_size=32", "--name=x", f"--where={where}")
    expected = {key for key, row in rows_of(whole).items() if CONDITIONS[where](row)}
    assert 0 < len(expected) < len(rows_of(whole))
    assert rows_of(out).keys() == expected
    found = open_dataset(whole).records(form="features").filter(where)
    assert sorted(record["filename"].decode() for record in found) == sorted(key.rsplit("/")[-1] for key in expected)
    assert manifest_of(out)["spec"]["where"] == where
    assert manifest_of(out)["filtered"] == len(rows_of(whole)) - len(expected)
    # A dataset of ours is filtered by what its index says.
    again = build(tmp_path / "again", f"--input={whole}", "--name=x", f"--where={where}")
    assert rows_of(again).keys() == expected
    assert (out / "label.labels.txt").read_bytes() == (again / "label.labels.txt").read_bytes()
    for one in (out, again):
        check_counts(one)


@pytest.mark.nightly
@each("source", INPUTS)
def test_every_source_is_filtered(tmp_path, build, source):
    (tmp_path / "in").mkdir()
    INPUTS[source][0](tmp_path / "in", 0)
    words = [*flags_of(source, tmp_path / "in"), "--image_size=24", "--name=x"]
    brightness = sorted(row["brightness"] for row in rows_of(build(tmp_path / "all", *words)).values())
    where = f"brightness <= {brightness[len(brightness) // 2]} and height = 24"
    out = build(tmp_path / "out", *words, f"--where={where}")
    assert sorted(row["brightness"] for row in rows_of(out).values()) == [
        one for one in brightness if one <= brightness[len(brightness) // 2]
    ]
    check_counts(out)


def _write_rows(folder: Path) -> list[str]:
    save_pictures(folder)
    rows = [
        {
            "image": name,
            "label": [["cat", "dog"], ["dog"], [], ["emu"]][number],
            "age": [3, 4, 5, "six"][number],
            "height": [1.5, 2.5, 3.5, 4.5][number],
            "note": ["a b", "it's", "", "z"][number],
        }
        for number, name in enumerate(PICTURES)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    layout = {
        "image": "image.encoded",
        "labels": "labels.index",
        **{
            name: {"field": f"column.{name}", "type": kind}
            for name, kind in (("age", "int64"), ("height", "float"), ("note", "bytes"))
        },
    }
    (folder / "layout.yaml").write_text(json.dumps({"layout": layout}))
    return [f"--input={folder / 'rows.jsonl'}", f"--spec={folder / 'layout.yaml'}", "--max_failures=0.5", "--name=x"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory, build) -> tuple[list[str], Path]:
    """The flags of the rows, and their dataset without a condition."""
    folder = tmp_path_factory.mktemp("rows")
    words = _write_rows(folder)
    return words, build(folder / "all", *words)


@each(
    "where, keys",
    [
        ("age > 3", "bc"),
        ("column.age + 1 = 4", "a"),
        ("column.height > 2", "bc"),
        ("height > 45 and column.height > 2", "b"),
        ("note like '%' 's'", None),
        ('note like "%\'s"', "b"),
        ("note = ''", "c"),
        ("'dog' in labels", "ab"),
        ("'dog' in labels and 'cat' not in labels", "b"),
        ("'o' in labels or label = 'emu'", ""),
        ("label = 'dog'", "b"),
    ],
)
def test_columns_of_the_layout_and_several_labels_are_known(tmp_path, rows, convert, where, keys):
    words, whole = rows
    ran = convert(*words, f"--output={tmp_path / 'out'}", f"--where={where}")
    if keys is None:
        ran.refused("invalid_condition", says=["no operator between two texts"])
        return
    if not keys:
        assert (ran.code, "were filtered" in ran.err) == (3, True)
        assert "--where left out every sample that did not fail; change it" in ran.err
        return
    assert ran.code == 0, ran.err
    # The row with `six` is rejected where it fulfils the condition, or where its age decides.
    assert manifest_of(tmp_path / "out")["failures"] == ("age" in where or "column.height" in where)
    assert rows_of(tmp_path / "out").keys() == {f"{key}.jpg" for key in keys}
    check_counts(tmp_path / "out")
    kept = open_dataset(whole).records(form="features").filter(where)
    assert {row["key"] for row in kept.index_rows()} == {f"{key}.jpg" for key in keys}


def test_images_that_the_listing_rules_out_are_not_read(tmp_path, build, some_photos):
    folder = shutil.copytree(some_photos[0], tmp_path / "photos")
    for path in folder.glob("rocket/*"):
        path.write_bytes(b"no image")
    out = build(tmp_path / "out", f"--input={folder}", "--image_size=32", "--where=label != 'rocket' and height > 1")
    assert (manifest_of(out)["failures"], manifest_of(out)["filtered"]) == (0, 3)


def test_another_condition_makes_another_version_and_takes_records_over(tmp_path, build, some_photos):
    words = [f"--input={some_photos[0]}", "--image_size=32", "--versioned", "--name=x"]
    build(tmp_path / "out", *words, "--where=label != 'cat'")
    first = open_dataset(tmp_path / "out")
    build(tmp_path / "out", *words, "--where=label != 'cat'")
    assert open_dataset(tmp_path / "out").path == first.path
    build(tmp_path / "out", *words, "--where=label in ('cat', 'rocket')", "--accept=all")
    second = open_dataset(tmp_path / "out")
    assert second.path != first.path
    assert {row["label"] for row in rows_of(Path(second.path)).values()} == {"cat", "rocket"}
    assert second.manifest["reuse"]["copied"] + second.manifest["reuse"]["reserialized"] == 3
