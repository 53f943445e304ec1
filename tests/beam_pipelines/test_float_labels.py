"""A layout that stores whole numbers as floats: every command reads it back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import find_all
from tests.beam_pipelines.test_verify_records import one_record, rewrite_shard, with_feature

LAYOUT = {
    "image": "image.encoded",
    "height": {"field": "image.height", "type": "float"},
    "label": {"field": "label.index", "type": "float"},
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, picture, save, build) -> Path:
    folder = tmp_path_factory.mktemp("floats")
    for number in range(6):
        save(folder / "pets" / ("cat", "dog")[number % 2] / f"{number}.png", picture(number, 24, 30))
    (folder / "spec.json").write_text(json.dumps({"layout": LAYOUT}))
    return build(folder / "out", f"--input={folder / 'pets'}", f"--spec={folder / 'spec.json'}")


def test_they_are_stored_verified_and_shown(dataset, read, run):
    stored = {record.row["label"]: record["label"] for record in read(dataset, "train")}
    assert stored == {"cat": 0.0, "dog": 1.0}
    ran = run("verify", f"--dataset={dataset}", "--direct_num_workers=1")
    assert (ran.code, ran.err) == (0, "")
    ran = run("inspect", f"--dataset={dataset}", "--examples=6")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("label   0 (cat)") == ran.out.count("label   1 (dog)") == 3
    assert ran.out.count("height  24.0") == 6


def test_tfds_reads_them_as_numbers(dataset):
    features = json.loads((dataset / "features.json").read_text())["featuresDict"]["features"]
    assert features["label"]["tensor"]["dtype"] == "float32"


@pytest.mark.parametrize("index", [0.5, 2.0, -1.0, float("nan")])
def test_one_that_names_no_class_is_found(dataset, tmp_path, index):
    path = Path(shutil.copytree(dataset, tmp_path / "out"))
    rewrite_shard(path, 0, one_record(1, lambda _, example: with_feature(example, "label", float_list=[index])))
    (finding,) = find_all(path)
    assert finding.record == 1
    # -1 stands for a missing label, which the index of this record has.
    expected = "the label is None; the index says" if index == -1 else f"label {index} is outside the 2 classes"
    assert expected in finding.problem
