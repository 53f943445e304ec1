"""Rows of a table with one key: their boxes come together, and contradictions are rejected."""

from __future__ import annotations

import json

import pytest

from beam_tfrecords.reading.opening import open_dataset
from tests.beam_pipelines.dataset_checks import find_all, manifest_of


@pytest.fixture
def folder(tmp_path, picture, save):
    for number in range(6):
        save(tmp_path / f"in/{number}.png", picture(number, 40, 40))
    return tmp_path / "in"


@pytest.mark.parametrize("form", ["lists", "objects"])
def test_rows_with_a_box_each_keep_all_boxes(folder, tmp_path, build, form):
    rows = []
    for image in range(6):
        for box in range(3):
            sides, name = [box * 9, image, 5 + box, 7], ("cat", "dog", "cat")[box]
            found = {"bbox": [sides], "categories": [name]}
            cell = found if form == "lists" else [{"bbox": sides, "category": name}]
            rows.append({"image": f"{image}.png", "objects": cell})
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = build(tmp_path / "out", f"--input={folder / 'rows.jsonl'}", "--group_rows", "--layout=detection")
    manifest = manifest_of(out)
    assert (manifest["records"], manifest["merged_rows"], manifest["objects"]["written"]) == (6, 12, 18)
    assert manifest["splits"]["train"]["classes"] == {"cat": 12, "dog": 6}
    assert find_all(out) == []


def test_contradicting_rows_are_rejected_all_and_equal_ones_but_one(folder, tmp_path, convert):
    rows = ["0.png,cat", "0.png,dog", "0.png,cat", "1.png,cat", "1.png,cat", "2.png,dog"]
    (folder / "rows.csv").write_text("\n".join(["image,label", *rows]))
    flags = [f"--input={folder / 'rows.csv'}", "--max_failures=0.9"]
    ran = convert(*flags, "--dry_run", f"--output={tmp_path / 'none'}")
    assert "conflicting_rows 3" in ran.out
    assert "duplicate_key 1" in ran.out
    assert convert(*flags, f"--output={tmp_path / 'out'}").code == 0
    dataset = open_dataset(tmp_path / "out")
    assert dataset.manifest["failure_reasons"] == {"conflicting_rows": 3, "duplicate_key": 1}
    assert sorted(one["filename"] for one in dataset.records("train")) == ["1.png", "2.png"]
