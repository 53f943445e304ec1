"""Several heads: columns as classes, each with class names of its own."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import beam_tfrecords
from beam_tfrecords import Sample
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.refusals import refuses

GENDERS = ("m", "f", "f", "m", "m", "f")
AGES = (3, 1, 0, 2, 2, 3)
HEADS = {
    "gender": {"field": "column.gender", "type": "class"},
    "age": {"field": "column.age", "type": "class"},
}
LAYOUT = {"image": "image.encoded", "filename": "filename", **HEADS}


def pixels(number: int) -> np.ndarray:
    return np.full((12, 12, 3), 20 + 30 * number, np.uint8)


def rows_of(genders=GENDERS, ages=AGES) -> list[dict[str, Any]]:
    return [
        {"path": f"{number}.png", "gender": gender, "age": age}
        for number, (gender, age) in enumerate(zip(genders, ages, strict=True))
    ]


def write_csv(folder: Path, rows: list[dict[str, Any]], name: str = "table.csv") -> Path:
    for number in range(len(rows)):
        Image.fromarray(pixels(number)).save(folder / f"{number}.png")
    with (folder / name).open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return folder / name


def make(input: Path, output: Path, **settings: Any) -> beam_tfrecords.Dataset:
    named = {"image_column": "path"} if input.name.startswith("table.") else {}
    settings = {"layout": LAYOUT, "name": "faces", "image_size": 8, **named, **settings}
    made = beam_tfrecords.build(input=str(input), output=str(output), quiet=True, report=False, **settings)
    assert isinstance(made, beam_tfrecords.Dataset)
    return made


def test_classes_keep_their_indices_between_versions(tmp_path):
    table = write_csv(tmp_path, rows_of(genders=tuple("mfmfmf")))
    first = make(table, tmp_path / "out", versioned=True)
    before = {record["filename"]: int(record["gender"]) for record in first.records("train")}
    table.write_text(table.read_text().replace("5.png,f", "5.png,a"))
    with pytest.raises(beam_tfrecords.errors.BuildError, match="classes of gender that appeared"):
        make(table, tmp_path / "out", versioned=True)
    second = make(table, tmp_path / "out", versioned=True, accept=["classes"])
    assert second.features["gender"].class_names == ("f", "m", "a")
    assert Path(second.path, "gender.labels.txt").read_text() == "f\nm\na\n"
    assert (second.class_names, second.verify()) == ((), [])
    after = {record["filename"]: int(record["gender"]) for record in second.records("train")}
    assert after == {**before, "5.png": 2}
    changes = json.loads((Path(second.path) / "changes.json").read_text())["changes"]
    assert (changes["copied"]["samples"], changes["reserialized"]["samples"]) == (5, 1)
    assert any("'gender': classes keep the indices" in note for note in manifest_of(Path(second.path))["notes"])
    with pytest.raises(beam_tfrecords.errors.BuildError, match="class indices of gender that move: f 0 -> 1"):
        make(table, tmp_path / "out", versioned=True, class_order="sorted")
    assert make(table, tmp_path / "out", versioned=True).path == second.path


@pytest.mark.parametrize("names", [None, ["m", "f"]])
def test_what_is_resumed_is_what_a_build_from_scratch_makes(tmp_path, names):
    gender = {**HEADS["gender"], **({"class_names": names} if names else {})}
    settings = {"layout": {**LAYOUT, "gender": gender}, "num_shards": 1}
    table = write_csv(tmp_path, rows_of())
    (tmp_path / "5.png").write_bytes((tmp_path / "0.png").read_bytes())
    with pytest.raises(beam_tfrecords.errors.BuildError):
        make(table, tmp_path / "resumed", duplicates="fail", **settings)
    text = table.read_text()
    for edited in (text.replace("0.png,m", "0.png,f"), text.replace("2.png,f,0", "2.png,f,9")):
        table.write_text(edited)
        for output in ("resumed", "scratch"):
            make(table, tmp_path / output, overwrite=True, **settings)
        assert shards_of(tmp_path / "resumed") == shards_of(tmp_path / "scratch")
    again = {**settings, "layout": {**LAYOUT, "gender": {**gender, "class_names": ["x", "f", "m"]}}}
    for output in ("resumed", "scratch-again"):
        make(table, tmp_path / output, overwrite=True, **again)
    assert shards_of(tmp_path / "resumed") == shards_of(tmp_path / "scratch-again")


@pytest.mark.report
def test_people_see_the_classes_of_each_head(tmp_path, convert, run):
    table = write_csv(tmp_path, rows_of())
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"layout": LAYOUT}))
    ran = convert(f"--input={table}", f"--output={tmp_path / 'out'}", f"--spec={spec}", "--image_column=path")
    assert ran.code == 0, ran.err
    assert "classes of gender: f 3, m 3\n" in ran.out
    shown = run("inspect", f"--dataset={tmp_path / 'out'}", "--examples=1").out
    assert "classes of gender: 0 f, 1 m" in shown
    assert any(f"gender    {line}" in shown for line in ("0 (f)", "1 (m)")), shown
    page = (tmp_path / "out/report.html").read_text()
    assert "<h3>gender</h3>" in page
    assert 'aria-label="train 3 "' in page
    assert "Classes of gender: 0 f, 1 m." in (tmp_path / "out/README.md").read_text()


def test_datasets_with_other_classes_are_not_mixed(tmp_path):
    one = make(write_csv(tmp_path, rows_of()), tmp_path / "one")
    records = beam_tfrecords.open_dataset(one)["train"]
    assert len(beam_tfrecords.mix([(records, 1), (records, 1)])) > 0
    other = make(write_csv(tmp_path, rows_of(genders=tuple("mfxmfx"))), tmp_path / "other")
    with refuses("layouts_differ", "layout", says=["['f', 'm'] in part 0", "['f', 'm', 'x'] in part 1"]):
        beam_tfrecords.mix([(records, 1), (beam_tfrecords.open_dataset(other)["train"], 1)])


def test_a_function_that_makes_the_column_needs_its_names(tmp_path):
    layout = {"image": "image.encoded", "dark": {"field": "column.dark", "type": "class"}}
    with refuses("missing_class_names", "layout", says=["'dark'"]):
        make(write_csv(tmp_path, rows_of()), tmp_path / "out", layout=layout, map=add_dark)
    layout["dark"] = {"field": "column.dark", "type": "class", "class_names": ["no", "yes"]}
    dataset = make(tmp_path / "table.csv", tmp_path / "out", layout=layout, map=add_dark)
    assert sorted(int(record["dark"]) for record in dataset.records("train")) == [0, 0, 0, 1, 1, 1]


def add_dark(sample: Sample) -> Sample:
    return sample.replace(columns={**sample.columns, "dark": "yes" if sample.image.mean() < 100 else "no"})
