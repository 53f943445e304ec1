"""`inspect`: schema, class names and examples, of datasets, of records of others, and of a mapping, for people."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import RequestError, open_dataset, plan
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.cases.loading import read_area
from tests.each import each
from tests.framing import write_examples
from tests.refusals import refuses
from tests.trees import write_tree
from tests.writers import WRITERS

MORE = {
    "plain": ["--layout=imagenet", "--splits=train=0.8,validation=0.2"],
    "gzip": ["--compression=gzip", "--num_shards=2"],
    "raw": ["--layout=raw", "--image_encoding=raw"],
}
both = pytest.mark.parametrize("name", ["plain", "gzip"])


@pytest.fixture(scope="module")
def datasets(tmp_path_factory, build) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("inspect")
    root = write_tree(folder / "pets", "cat/picture+{10..24}.png Schäfer+Hund/picture+{30..44}.png", size="30x24")
    flags = [f"--input={root}", "--image_size=16x20", "--resize_mode=exact", "--name=pets"]
    return {name: build(folder / name, *flags, *words) for name, words in MORE.items()}


@pytest.fixture
def inspect(run):
    """Runs `inspect` on a dataset; returns its lines."""

    def show(path, *words) -> list[str]:
        ran = run("inspect", f"--dataset={path}", *words)
        assert (ran.code, ran.err) == (0, "")
        return ran.out.splitlines()

    return show


def names_in(lines: list[str]) -> list[str]:
    """Returns the values of the feature `filename`."""
    return [line.split(maxsplit=1)[1] for line in lines if "filename" in line and "'picture" in line]


def name_of(record) -> str:
    return f"'{record.key.split('/')[-1]}'"


def test_splits_features_and_class_names_are_shown(datasets, inspect, read):
    lines = inspect(datasets["plain"], "--examples=0")
    for split in ("train", "validation"):
        (line,) = [line for line in lines if line.startswith(split)]
        assert str(len(read(datasets["plain"], split))) in line.split()
    layout = manifest_of(datasets["plain"])["spec"]["layout"]
    assert all([name, one["type"], one["field"]] in [line.split() for line in lines] for name, one in layout.items())
    assert any("0 Schäfer Hund, 1 cat" in line for line in lines)
    assert not [line for line in lines if "example" in line]


@both
def test_examples_are_shown_in_the_order_of_the_dataset(datasets, inspect, read, name):
    records = read(datasets[name], "train")
    lines = inspect(datasets[name], "--split=train", "--examples=5")
    assert names_in(lines) == [name_of(record) for record in records[:5]]
    text = "\n".join(lines)
    labels = {record.row["label"] for record in records[:5]}
    assert all(f"{['Schäfer Hund', 'cat'].index(label)} ({label})" in text for label in labels)
    assert text.count("JPEG of 16 x 20 pixels") == 5
    # Three of the first split by default.
    shown = [line.partition(" (")[0] for line in inspect(datasets[name]) if " example " in line]
    assert [line.split()[:3] for line in shown] == [["train", "example", str(number)] for number in range(3)]
    # Those of a condition have their numbers in the whole.
    wanted = [(number, record) for number, record in enumerate(records) if record.row["label"] == "cat"]
    lines = inspect(datasets[name], "--split=train", "--where=label = 'cat'", "--examples=4")
    assert f"records where label = 'cat': {len(wanted)} of {len(records)} in train" in lines
    found = [line.split()[:3] for line in lines if line.startswith("train example")]
    assert found == [["train", "example", str(number)] for number, _ in wanted[:4]]
    assert names_in(lines) == [name_of(record) for _, record in wanted[:4]]


def test_a_split_is_chosen_and_a_condition_looks_into_all(datasets, inspect, read):
    train, validation = read(datasets["plain"], "train"), read(datasets["plain"], "validation")
    for word in ("--split=validation", "--where=split='validation'"):
        shown = [line for line in inspect(datasets["plain"], word, "--examples=100") if " example " in line]
        assert len(shown) == len(validation)
        assert all(line.startswith("validation") for line in shown)
    text = "\n".join(inspect(datasets["plain"], f"--where=key='{validation[0].key}'"))
    assert f"0 of {len(train)} in train, 1 of {len(validation)} in validation" in text
    assert text.count(" example ") == text.count("validation example 0") == 1


def test_long_values_are_described_and_those_of_a_table_shown(datasets, tmp_path, build, inspect, run):
    lines = inspect(datasets["raw"], "--examples=1")
    assert any("960 bytes" in line for line in lines)
    assert max(map(len, lines)) < 200
    (tmp_path / "rows.csv").write_text("count,weight,name\n1,0.5,first\n")
    types = {"count": "int64", "weight": "float", "name": "bytes"}
    layout = {name: {"field": f"column.{name}", "type": kind} for name, kind in types.items()}
    (tmp_path / "spec.json").write_text(json.dumps({"layout": layout}))
    out = build(tmp_path / "out", f"--input={tmp_path / 'rows.csv'}", f"--spec={tmp_path / 'spec.json'}")
    lines = [line.split() for line in inspect(out)]
    assert [one in lines for one in (["count", "1"], ["weight", "0.5"], ["name", "'first'"])] == [True] * 3
    ran = run("inspect", f"--dataset={out}", f"--save={tmp_path / 'x.png'}")
    ran.refused("no_image", "save", says=[str(out)])
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize("name", MORE)
def test_one_record_is_shown_and_its_image_is_saved_also_without_an_index(datasets, inspect, read, tmp_path, name):
    records = read(datasets[name], "train")
    number = len(records) - 1  # of gzip, in the second shard
    words = ["--split=train", f"--image={number}"]
    lines = inspect(datasets[name], *words, f"--save={tmp_path / 'x.png'}")
    assert lines[0].startswith(f"train example {number} ")
    assert records[number].key in lines[0]
    saved = np.asarray(Image.open(tmp_path / "x.png"), int)
    source = Image.open(datasets[name].parent / records[number].row["uri"]).convert("RGB").resize((20, 16))
    assert np.abs(saved - np.asarray(source, int)).mean() < 12
    path = Path(shutil.copytree(datasets[name], tmp_path / "copy", ignore=shutil.ignore_patterns("index")))
    others = inspect(path, *words, f"--save={tmp_path / 'without.png'}")
    assert (tmp_path / "x.png").read_bytes() == (tmp_path / "without.png").read_bytes()
    assert others[1:-1] == lines[1:-1]
    assert others[0].startswith(f"train example {number} (")


@both
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9, None])
def test_a_damaged_record_and_a_missing_shard_are_named_in_one_line(datasets, run, tmp_path, name, share):
    path = Path(shutil.copytree(datasets[name], tmp_path / "damaged"))
    for shard in path.glob("*.tfrecord-*"):
        data = bytearray(shard.read_bytes())
        if share is None:
            shard.unlink()
        else:
            data[int(len(data) * share)] ^= 255
            shard.write_bytes(data)
    ran = run("inspect", f"--dataset={path}", "--examples=100")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "pets-train.tfrecord-00000-of-0000" in ran.err


def test_json_is_one_document(datasets, inspect, read):
    def show(*words):
        return json.loads("\n".join(inspect(datasets["plain"], "--json", *words)))

    shown = show("--split=validation", "--examples=2")
    assert shown["class_names"] == ["Schäfer Hund", "cat"]
    assert sum(split["records"] for split in shown["splits"].values()) == 30
    assert set(shown["features"]) == set(shown["examples"][0]["features"])
    assert (shown["found"], [example["number"] for example in shown["examples"]]) == (None, [0, 1])
    features = shown["examples"][1]["features"]
    assert features["image/class/text"] == [read(datasets["plain"], "validation")[1].row["label"]]
    assert set(features["image/encoded"][0]) == {"bytes"}
    found = show("--where=label = 'cat'")
    assert sum(found["found"].values()) == 15
    assert {example["features"]["image/class/text"][0] for example in found["examples"]} == {"cat"}
    (example,) = show("--image=3")["examples"]
    assert (example["split"], example["number"]) == ("train", 3)


# Records of others.


@pytest.fixture
def records(tmp_path) -> Path:
    """A folder with a file of examples."""
    WRITERS["tfrecord_objects"].make(tmp_path / "records")
    return tmp_path / "records"


@pytest.mark.parametrize("name", ["", "/objects.tfrecord", "/*.tfrecord"])
def test_features_and_examples_of_records_of_others_are_shown(records, inspect, name):
    lines = inspect(f"{records}{name}", "--examples=2")
    assert lines[0].startswith("1 TFRecord file of ")
    assert {"image/encoded            bytes  1 value", "image/object/bbox/xmin   float  1 to 2 values"} <= {*lines}
    assert "  image/object/class/text: 'cat', 'dog'" in lines
    assert [line for line in lines if line.startswith("example")] == ["example 0", "example 1"]


def test_what_is_damaged_is_named_and_what_needs_a_dataset_is_refused(records, run):
    data = bytearray((records / "objects.tfrecord").read_bytes())
    data[100] ^= 1
    for name, content, said in (
        ("flipped.tfrecord", bytes(data), "record 0 at offset 0: the data's CRC does not match"),
        ("cut.tfrecord", bytes(data[:300]), "record 0"),
        ("zipped.tfrecord.gz", gzip.compress(data)[:200], "the compressed file is damaged"),
    ):
        (records / name).write_bytes(content)
        ran = run("inspect", f"--dataset={records}/{name}")
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert f"{records}/{name}: {said}" in ran.err
        (records / name).unlink()
    run("verify", f"--dataset={records}").refused("records_of_others", "output", says=["beam-tfrecords inspect"])
    run("inspect", f"--dataset={records}", "--where=sharpness < 20").refused("no_index", "where")
    other = write_tree(records.with_name("other"), files={"a.txt": "a"})
    (records / ".build").mkdir()
    for path, command in ((other, "inspect"), (other, "verify"), (records, "inspect")):
        run(command, f"--dataset={path}").refused("no_dataset", "output")


@each(
    "name, files",
    [("TFX's ExampleGen, an artifact", 3), ("spark-tensorflow-connector", 2), ("ImageNet with DALI's indices", 2)],
)
def test_files_are_found_in_trees_as_convert_finds_them(name, files, tmp_path, run):
    read_area("record_trees")[name].write(tmp_path / "in")
    inspected = run("inspect", f"--dataset={tmp_path / 'in'}", "--examples=0")
    assert inspected.out.startswith(f"{files} TFRecord file")
    command = shlex.split(inspected.out.splitlines()[-1].partition("; to convert them: ")[2])
    expected = ["beam-tfrecords", "convert", "--source=tfrecord", f"--input={tmp_path / 'in'}", "--output=FOLDER"]
    assert command == expected


@pytest.mark.parametrize("content", [b"", b"done\n", b"{}"])
def test_the_success_of_another_program_makes_no_dataset(records, photos, run, content):
    (records / "_SUCCESS").write_bytes(content)
    assert "to convert them: beam-tfrecords convert " in run("inspect", f"--dataset={records}").out
    with refuses("no_dataset", "output", says=["_SUCCESS"]):
        open_dataset(records)
    for flags in ([], ["--overwrite"]):
        ran = run("convert", f"--input={photos}", f"--output={records}", "--image_size=16", *flags)
        ran.refused("output_not_empty", "output")
    (records / "objects.tfrecord").unlink()
    (records / "part-00000.snappy.parquet").write_bytes(b"PAR1")
    for command in ("inspect", "verify"):
        ran = run(command, f"--dataset={records}")
        ran.refused("no_dataset", "output", says=["part-00000.snappy.parquet"])


def test_datasets_of_ours_below_a_folder_are_named_and_a_damaged_one_is_ours(tmp_path, build, run):
    root, folder = write_tree(tmp_path / "in", "cat/1.png dog/2.png"), tmp_path / "all"
    for name, flags in (("a", []), ("b", ["--versioned"])):
        build(folder / name, f"--input={root}", *flags)
    for command in ("inspect", "verify"):
        run(command, f"--dataset={folder}").refused("no_dataset", says=[f"({folder}/a, {folder}/b)"])
    for given in ([f"{folder}/a", f"{folder}/b"], [f"{folder}/b"]):
        with pytest.raises(RequestError) as refused:
            plan(input=folder, output=tmp_path / "out", source="tfrecord")
        assert refused.value.code == "several_datasets"
        assert [one.settings["input"] for one in refused.value.suggestions] == given
        shutil.rmtree(folder / "a", ignore_errors=True)
    out = build(tmp_path / "out", f"--input={root}")
    (out / "manifest.json").unlink()
    ran = run("verify", f"--dataset={out}")
    assert (ran.code, "manifest.json cannot be read" in ran.err) == (1, True)


def test_a_record_of_others_is_shown_and_its_image_or_pixels_are_saved(run, tmp_path):
    images = WRITERS["tfrecord"].make(tmp_path / "in")["input"]
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 6, 3), dtype=np.uint8)
    shape = {"height": 8, "width": 6, "depth": 3}
    write_examples(tmp_path / "pixels.tfrecord", ({"image_raw": one.tobytes(), **shape} for one in pixels))
    write_examples(tmp_path / "y.tfrecord", [{"a": 1}])
    save = f"--save={tmp_path / 'x.png'}"
    ran = run("inspect", images, "--image=3", save)
    assert (ran.code, "example 3" in ran.out) == (0, True), ran.err
    assert Image.open(tmp_path / "x.png").width > 16
    run("inspect", images, "--image=99999").refused("unknown_record", "image")
    assert run("inspect", str(tmp_path / "pixels.tfrecord"), "--image=2", save).code == 0
    np.testing.assert_array_equal(np.array(Image.open(tmp_path / "x.png")), pixels[2])
    words = ["inspect", str(tmp_path / "y.tfrecord"), "--image=0"]
    assert run(*words).out.splitlines() == ["example 0", "  a: 1"]
    run(*words, f"--save={tmp_path / 'y.png'}").refused("no_image")
    run(*words, f"--save={tmp_path / 'y.txt'}").refused("invalid_value", "save")
    assert not (tmp_path / "y.png").exists()


# Mappings.


@pytest.fixture
def documents(tmp_path) -> Path:
    """A folder of two photos and their documents, of which the second has a box."""
    objects = {"kind": "cat", "left": 5, "top": 10, "width": 20, "height": 15}
    mapping = "image: file\nobjects: things\nclass: kind\nbox: [left, top, width, height]\nform: xywh\n"
    files = {f"{name}.png": "blue 40x30" for name in "ab"}
    files |= {"a.json": {"file": "a.png", "things": []}, "b.json": {"file": "b.png", "things": [objects]}}
    return write_tree(tmp_path / "in", files={**files, "mine.yaml": f"documents: '*.json'\n{mapping}"})


def test_a_mapping_shows_what_it_finds_and_draws_the_first_objects(documents, run):
    ran = run("inspect", documents, f"--mapping={documents / 'mine.yaml'}", f"--save={documents / 'drawn.png'}")
    assert ran.code == 0
    for said in ("`image: file` finds 'a.png'", "`objects: things` finds '[]'", "sample b.png\n  cat: 5, 10, 25, 25"):
        assert said in ran.out
    with Image.open(documents / "drawn.png") as drawn:
        times = drawn.width // 40
        edge, beside = (drawn.getpixel((x * times - (x == 25), 20 * times)) for x in (25, 35))
    assert edge != beside


@each(
    "flags, code",
    [
        (["--mapping=labelmee"], "unknown_mapping"),
        (["--mapping=kitti"], "not_found"),
        (["--mapping=via"], "unfit_mapping"),
        (["--mapping=labelme", "--split=train"], "conflicting_settings"),
    ],
)
def test_a_mapping_that_finds_nothing_is_refused(documents, run, flags, code):
    ran = run("inspect", documents, *flags)
    assert (ran.code, ran.refusal.code) == (2, code)
