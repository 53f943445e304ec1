"""`inspect`: schema, class names and examples, for people."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="module")
def pets(tmp_path_factory, picture, save) -> Path:
    root = tmp_path_factory.mktemp("inspect") / "pets"
    for number in range(30):
        name = ("cat", "Schäfer Hund")[number % 2]
        save(root / name / f"picture {number:02d}.png", picture(number, 24, 30))
    return root


@pytest.fixture(scope="module")
def datasets(pets, build) -> dict[str, Path]:
    flags = {
        "plain": ["--layout=imagenet", "--splits=train=0.8,validation=0.2"],
        "gzip": ["--compression=gzip", "--num_shards=2"],
        "raw": ["--layout=raw", "--image_encoding=raw"],
    }
    more = ["--image_size=16x20", "--resize_mode=exact", "--name=pets"]
    return {name: build(pets.parent / name, f"--input={pets}", *words, *more) for name, words in flags.items()}


def test_splits_features_and_class_names_are_shown(datasets, run, read):
    ran = run("inspect", f"--dataset={datasets['plain']}", "--examples=0")
    assert (ran.code, ran.err) == (0, "")
    for split in ("train", "validation"):
        (line,) = [line for line in ran.out.splitlines() if line.startswith(split)]
        assert str(len(read(datasets["plain"], split))) in line.split()
    manifest = json.loads((datasets["plain"] / "manifest.json").read_text())
    for name, feature in manifest["spec"]["layout"].items():
        assert [name, feature["type"], feature["field"]] in [line.split() for line in ran.out.splitlines()]
    assert "0 Schäfer Hund, 1 cat" in ran.out
    assert "example" not in ran.out


@pytest.mark.parametrize("name", ["plain", "gzip"])
def test_the_first_examples_are_shown_in_the_order_of_the_dataset(datasets, run, read, name):
    ran = run("inspect", f"--dataset={datasets[name]}", "--split=train", "--examples=5")
    assert ran.code == 0
    records = read(datasets[name], "train")[:5]
    names = [f"'{record.key.split('/')[-1]}'" for record in records]
    found = [line.split(maxsplit=1)[1] for line in ran.out.splitlines() if "filename" in line and "'picture" in line]
    assert found == names
    for record in records:
        label = record.row["label"]
        index = ["Schäfer Hund", "cat"].index(label)
        assert f"{index} ({label})" in ran.out
    assert ran.out.count("JPEG of 16 x 20 pixels") == 5


def test_three_examples_of_the_first_split_are_shown_by_default(datasets, run):
    ran = run("inspect", f"--dataset={datasets['plain']}")
    assert [line for line in ran.out.splitlines() if " example " in line][-1].startswith("train example 2")
    assert ran.out.count(" example ") == 3


def test_the_split_can_be_chosen(datasets, run, read):
    ran = run("inspect", f"--dataset={datasets['plain']}", "--split=validation", "--examples=100")
    assert ran.out.count("validation example ") == len(read(datasets["plain"], "validation"))
    assert "train example" not in ran.out


@pytest.mark.parametrize("name", ["plain", "gzip"])
def test_a_condition_chooses_the_examples(datasets, run, read, name):
    every = read(datasets[name], "train")
    wanted = [(number, record) for number, record in enumerate(every) if record.row["label"] == "cat"]
    ran = run("inspect", f"--dataset={datasets[name]}", "--split=train", "--where=label = 'cat'", "--examples=4")
    assert (ran.code, ran.err) == (0, "")
    assert f"records where label = 'cat': {len(wanted)} of {len(every)} in train\n" in ran.out
    found = [line.split()[:3] for line in ran.out.splitlines() if line.startswith("train example")]
    assert found == [["train", "example", str(number)] for number, _ in wanted[:4]]
    shown = [line.split(maxsplit=1)[1] for line in ran.out.splitlines() if "filename" in line and "'picture" in line]
    assert shown == [f"'{record.key.split('/')[-1]}'" for _, record in wanted[:4]]


def test_a_condition_without_a_split_looks_into_all(datasets, run, read):
    train, validation = read(datasets["plain"], "train"), read(datasets["plain"], "validation")
    ran = run("inspect", f"--dataset={datasets['plain']}", f"--where=key='{validation[0].key}'")
    assert f"0 of {len(train)} in train, 1 of {len(validation)} in validation" in ran.out
    assert ran.out.count(" example ") == ran.out.count("validation example 0") == 1
    ran = run("inspect", f"--dataset={datasets['plain']}", "--where=split='validation'", "--examples=100")
    assert ran.out.count("validation example ") == ran.out.count(" example ") == len(validation)


def test_long_values_are_described_and_not_printed(datasets, run):
    ran = run("inspect", f"--dataset={datasets['raw']}", "--examples=1")
    assert "960 bytes" in ran.out
    assert max(map(len, ran.out.splitlines())) < 200


def test_a_table_is_shown_with_its_values(tmp_path, build, run):
    (tmp_path / "rows.csv").write_text("count,weight,name\n1,0.5,first\n")
    types = {"count": "int64", "weight": "float", "name": "bytes"}
    spec = {"layout": {name: {"field": f"column.{name}", "type": kind} for name, kind in types.items()}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    out = build(tmp_path / "out", f"--input={tmp_path / 'rows.csv'}", f"--spec={tmp_path / 'spec.json'}")
    lines = [line.split() for line in run("inspect", f"--dataset={out}").out.splitlines()]
    assert ["count", "1"] in lines
    assert ["weight", "0.5"] in lines
    assert ["name", "'first'"] in lines


@pytest.mark.parametrize("name", ["plain", "gzip", "raw"])
def test_one_record_is_shown_and_its_image_is_saved(datasets, run, read, tmp_path, name):
    records = read(datasets[name], "train")
    number = len(records) - 1  # of gzip, in the second shard
    ran = run("inspect", f"--dataset={datasets[name]}", f"--image={number}", f"--save={tmp_path / 'x.png'}")
    assert ran.code == 0
    assert ran.out.startswith(f"train example {number} ")
    assert f"{records[number].key}" in ran.out.splitlines()[0]
    saved = np.asarray(Image.open(tmp_path / "x.png"), int)
    picture = np.asarray(
        Image.open(datasets[name].parent / records[number].row["uri"]).convert("RGB").resize((20, 16)), int
    )
    assert np.abs(saved - picture).mean() < 12


def test_the_image_of_a_record_without_one_cannot_be_saved(tmp_path, build, run):
    (tmp_path / "rows.csv").write_text("count\n1\n")
    (tmp_path / "spec.json").write_text(json.dumps({"layout": {"n": {"field": "column.count", "type": "int64"}}}))
    out = build(tmp_path / "out", f"--input={tmp_path / 'rows.csv'}", f"--spec={tmp_path / 'spec.json'}")
    ran = run("inspect", f"--dataset={out}", f"--save={tmp_path / 'x.png'}")
    ran.refused("no_image", "save", says=[str(out)])
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("name", ["plain", "gzip"])
def test_a_damaged_record_is_named_in_one_line(datasets, run, tmp_path, name, share):
    path = shutil.copytree(datasets[name], tmp_path / "damaged")
    for shard in path.glob("*.tfrecord-*"):
        data = bytearray(shard.read_bytes())
        data[int(len(data) * share)] ^= 255
        shard.write_bytes(data)
    ran = run("inspect", f"--dataset={path}", "--examples=100")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "pets-train.tfrecord-00000-of-0000" in ran.err


def test_a_missing_shard_is_named_in_one_line(datasets, run, tmp_path):
    path = shutil.copytree(datasets["plain"], tmp_path / "damaged")
    os.remove(path / "pets-train.tfrecord-00000-of-00001")
    ran = run("inspect", f"--dataset={path}")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "pets-train.tfrecord-00000-of-00001" in ran.err


def test_inspect_saves_a_record_of_a_dataset_without_its_index(pets, build, run, tmp_path):
    out = build(tmp_path / "out", f"--input={pets}", "--image_size=16", "--splits=train=0.5,test=0.5")
    words = ["inspect", f"--dataset={out}", "--split=train", "--image=1"]
    ran = run(*words, f"--save={tmp_path / 'with.png'}")
    shutil.rmtree(out / "index")
    without = run(*words, f"--save={tmp_path / 'without.png'}")
    assert without.code == 0, without.err
    assert (tmp_path / "with.png").read_bytes() == (tmp_path / "without.png").read_bytes()
    shown, others = ran.out.splitlines(), without.out.splitlines()
    assert shown[1:-1] == others[1:-1]
    assert others[0].startswith("train example 1 (")


def test_json_is_one_document_with_the_schema_and_examples(datasets, run, read):
    ran = run("inspect", f"--dataset={datasets['plain']}", "--split=validation", "--examples=2", "--json")
    assert (ran.code, ran.err) == (0, "")
    shown = json.loads(ran.out)
    assert shown["class_names"] == ["Schäfer Hund", "cat"]
    assert sum(split["records"] for split in shown["splits"].values()) == 30
    assert set(shown["features"]) == set(shown["examples"][0]["features"])
    assert (shown["found"], [example["number"] for example in shown["examples"]]) == (None, [0, 1])
    record = read(datasets["plain"], "validation")[1]
    assert shown["examples"][1]["features"]["image/class/text"] == [record.row["label"]]
    assert set(shown["examples"][0]["features"]["image/encoded"][0]) == {"bytes"}


def test_json_has_the_records_of_a_condition_and_the_one_that_is_asked_for(datasets, run):
    words = ["inspect", f"--dataset={datasets['plain']}", "--json"]
    found = json.loads(run(*words, "--where=label = 'cat'").out)
    assert sum(found["found"].values()) == 15
    assert {example["features"]["image/class/text"][0] for example in found["examples"]} == {"cat"}
    (example,) = json.loads(run(*words, "--image=3").out)["examples"]
    assert (example["split"], example["number"]) == ("train", 3)
    run(*words, "--image=300").refused("unknown_record", "image")
    run(*words, "--save=a.png").refused("conflicting_settings", "json")
