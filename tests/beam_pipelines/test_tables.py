"""Tables of the kinds that people have: what is found, what is said, and what is refused."""

from __future__ import annotations

import json
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords.beam_pipelines.commands.cli import main
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.conftest import run_command
from tests.refusals import Refusal

COUNT = 40


@pytest.fixture
def pictures(tmp_path, picture, save):
    for number in range(COUNT):
        save(tmp_path / "train" / f"{number}.jpg", picture(number, 16, 16))
    return tmp_path


def test_rows_after_a_stray_quote_are_records(pictures, capsys):
    rows = [f"train/{number}.jpg,{number % 2},a cat" for number in range(COUNT)]
    rows[10], rows[30] = 'train/10.jpg,0,"a cat', 'train/30.jpg,0,a cat"'
    (pictures / "m.csv").write_text("\n".join(["image,label,caption", *rows]))
    out = pictures / "out"
    assert main(["convert", f"--input={pictures / 'm.csv'}", f"--output={out}", "--max_failures=0.1"]) == 0
    manifest = manifest_of(out)
    assert manifest["listed"] == COUNT
    assert (manifest["splits"]["train"]["records"], manifest["failure_reasons"]) == (COUNT - 1, {"invalid_row": 1})
    (failure,) = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    assert failure["detail"].startswith("line 12: ")


def test_a_table_with_ids_and_several_labels_is_read_as_the_refusals_say(pictures, capsys):
    rows = "".join(f"{number};{'cat' if number % 2 else 'dog'}|pet\n" for number in range(COUNT))
    (pictures / "m.csv").write_text("id;Breeds\n" + rows)
    request = [f"--input={pictures / 'm.csv'}", f"--output={pictures / 'out'}"]
    ran = run_command("convert", *request)
    ran.refused("missing_image_column", "input", "image_column", "image_path")
    _, _, command, *_ = ran.err.splitlines()
    assert shlex.split(command)[-3:] == ["--image_path=train/{id}.jpg", "--label_column=Breeds", "--label_separator=|"]
    assert not (pictures / "out").exists()
    request = shlex.split(command)[2:]
    refusal = Refusal("single_label_layout", "label_separator", "layout", says=["layout=multilabel"])
    run_command("convert", *request, "--layout=tfds").refused(refusal)
    assert main(["convert", *request]) == 0
    (note,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: m.csv")]
    assert "';'" in note
    manifest = manifest_of(pictures / "out")
    assert manifest["splits"]["train"]["classes"] == {"cat": COUNT // 2, "dog": COUNT // 2, "pet": COUNT}
    assert [f"note: {line}" for line in manifest["notes"]] == [note]


def test_a_parquet_file_without_a_column_of_images_is_refused_unless_columns_are_meant(tmp_path):
    pq.write_table(pa.table({"picture": ["1.jpg", "2.jpg"], "count": [1, 2]}), tmp_path / "m.parquet")
    for name in ("1.jpg", "2.jpg"):
        (tmp_path / name).write_bytes(b"x")
    request = [f"--input={tmp_path / 'm.parquet'}", f"--output={tmp_path / 'out'}"]
    ran = run_command("convert", *request)
    ran.refused("missing_image_column", "input", "image_column", "image_path")
    commands = ran.err.splitlines()[2::2]
    assert [shlex.split(line)[4:] for line in commands] == [
        ["--image_column=picture", "--layout=image"],
        ["--layout=columns"],
    ]
    assert main(["convert", *request, "--layout=columns"]) == 0
    assert set(manifest_of(tmp_path / "out")["spec"]["layout"]) == {"count", "picture"}


@pytest.mark.parametrize(
    ("labels", "refusal"),
    [
        (["cat", "1"], Refusal("mixed_labels", "class_names", says=["names ('cat')", "numbers ('1')"])),
        (["10001", "94103"], Refusal("labels_not_classes", "label_type", "class_names", says=["10001", "94103"])),
        (["0.25", "0.5"], Refusal("labels_not_classes", "label_type", "class_names", says=["fractions"])),
    ],
)
def test_labels_that_are_no_classes_are_refused(pictures, labels, refusal):
    rows = "".join(f"train/{number}.jpg,{label}\n" for number, label in enumerate(labels))
    (pictures / "m.csv").write_text("image,label\n" + rows)
    run_command("convert", f"--input={pictures / 'm.csv'}", f"--output={pictures / 'out'}").refused(refusal)
    assert not (pictures / "out").exists()


@pytest.mark.parametrize(
    ("flag", "refusal"),
    [
        ("--delimiter=;;", Refusal("invalid_value", "delimiter", says=["delimiter=;;`", "one character"])),
        ("--encoding=klingon", Refusal("invalid_value", "encoding", says=["encoding=klingon"])),
        (
            "--image_path=train/{name}.jpg",
            Refusal("unknown_column", "image_path", says=["'name'", "it has: image, label"]),
        ),
    ],
)
def test_a_wrong_word_is_refused(tmp_path, flag, refusal):
    (tmp_path / "m.csv").write_text("image,label\n1.jpg,cat\n")
    run_command("convert", f"--input={tmp_path / 'm.csv'}", f"--output={tmp_path / 'out'}", flag).refused(refusal)


def test_columns_of_zeros_and_ones_become_labels_and_none_of_them_is_no_failure(tmp_path, photos, build):
    paths = sorted(photos.glob("*/*"))[:4]
    rows = [
        f"{path},{healthy},{rust}"
        for path, (healthy, rust) in zip(paths, [(1, 0), (0, 1), (1, 1), (0, 0)], strict=True)
    ]
    (tmp_path / "table.csv").write_text("\n".join(["image,healthy,rust", *rows]))
    flags = [
        f"--input={tmp_path / 'table.csv'}",
        "--label_columns=rust,healthy",
        "--image_size=8",
        "--allow_outside_root",
    ]
    dataset = open_dataset(build(tmp_path / "several", *flags))
    assert dataset.class_names == ("rust", "healthy")
    labels = {example["filename"]: list(example["labels"]) for example in dataset.records("train")}
    assert labels == {path.name: label for path, label in zip(paths, [[1], [0], [0, 1], []], strict=True)}
    one = open_dataset(build(tmp_path / "one", *flags, "--layout=tfds", "--max_failures=0.5"))
    assert one.manifest["failure_reasons"] == {"wrong_type": 1, "label_missing": 1}


def test_one_of_several_columns_of_zeros_and_ones_as_the_label_is_noted(photos, tmp_path, convert):
    paths = sorted(photos.glob("cat/*"))[:4]
    rows = [f"{path},{number % 2},{1 - number % 2},0" for number, path in enumerate(paths)]
    (tmp_path / "table.csv").write_text("\n".join(["image,healthy,rust,is_valid", *rows]))
    flags = [f"--input={tmp_path / 'table.csv'}", "--allow_outside_root", "--image_size=8"]
    ran = convert(*flags, f"--output={tmp_path / 'one'}", "--label_column=healthy")
    assert ran.code == 0
    assert "if each is a class, use --label_columns=healthy,rust" in ran.out
    assert convert(*flags, f"--output={tmp_path / 'each'}", "--label_columns=healthy,rust").code == 0
    assert open_dataset(tmp_path / "each").class_names == ("healthy", "rust")


def test_a_class_without_a_one_is_noted_and_one_that_a_split_lacks_is_a_warning(tmp_path, photos, convert):
    paths = sorted(photos.glob("*/*"))[:2]
    rows = [f"{path},{cells}" for path, cells in zip(paths, ("1,0,0,train", "0,1,0,test"), strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["image,healthy,rust,scab,split", *rows]))
    flags = [f"--input={tmp_path / 'table.csv'}", "--label_columns=healthy,rust,scab", "--allow_outside_root"]
    ran = convert(*flags, f"--output={tmp_path / 'out'}", "--dry_run")
    assert "note: no row has a one in column 'scab'" in ran.out
    assert "warning: split test has no record of 1 of 2 classes: healthy" in ran.out
    assert "classes of test: rust 1" in ran.out


def test_a_table_without_the_labels_that_others_have_is_refused_with_the_others(pictures, capsys):
    rows = [f"train/{number}.jpg,{number % 2}\n" for number in range(COUNT)]
    for name, some in (("first", rows[: COUNT // 2]), ("second", rows[COUNT // 2 :])):
        (pictures / f"{name}.csv").write_text("".join(["image,label\n", *some]))
    (pictures / "third.csv").write_text("image\n" + "".join(f"train/{number}.jpg\n" for number in range(COUNT)))
    request = [f"--input={pictures / name}" for name in ("first.csv", "third.csv", "second.csv")]
    ran = run_command("convert", *request, f"--output={pictures / 'out'}", "--dry_run")
    ran.refused("missing_label_column", "input", says=["third.csv` "])
    _, _, command = ran.err.splitlines()
    assert main(shlex.split(command)[1:]) == 0
    assert f"{COUNT} samples" in capsys.readouterr().out


def test_images_without_labels(tmp_path, photos, build):
    dataset = open_dataset(build(tmp_path / "out", f"--input={photos}", "--layout=image", "--image_size=8"))
    assert dataset.class_names == ()
    assert set(dataset.records("train")[0]) == {"image", "filename"}


@pytest.mark.parametrize(
    ("label_type", "column", "values"), [("float", "age", [1.5, 30.0]), ("text", "says", ["a b", "c"])]
)
def test_labels_that_are_no_classes_are_stored_as_values(tmp_path, photos, build, label_type, column, values):
    paths = sorted(photos.glob("*/*"))[:2]
    rows = [f"{path},{value}" for path, value in zip(paths, values, strict=True)]
    (tmp_path / "table.csv").write_text("\n".join([f"image,{column}", *rows]))
    flags = [f"--label_type={label_type}", f"--label_column={column}", "--image_size=8", "--allow_outside_root"]
    dataset = open_dataset(build(tmp_path / "out", f"--input={tmp_path / 'table.csv'}", *flags))
    assert dataset.class_names == ()
    labels = [example["label"] for example in dataset.records("train")]
    assert sorted(one if isinstance(one, str) else float(one) for one in labels) == sorted(values)
    assert dataset.verify() == []


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_vectors_are_stored_as_numbers(tmp_path, photos, build, name):
    paths = sorted(photos.glob("*/*"))[:3]
    votes = [[12, 0, 3], [0.5, 0.25, 0.25], [7, 7, 1]]
    rows = [{"image": str(path), "votes": one} for path, one in zip(paths, votes, strict=True)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if name.endswith("csv"):
        text = "\n".join(["image,votes", *(f'{row["image"]},"{row["votes"]}"' for row in rows), ""])
    (tmp_path / name).write_text(text)
    flags = ["--label_type=float", "--label_column=votes", "--image_size=8", "--allow_outside_root"]
    dataset = open_dataset(build(tmp_path / "out", f"--input={tmp_path / name}", *flags))
    assert sorted(list(map(float, example["label"])) for example in dataset.records("train")) == sorted(votes)
    assert dataset.verify() == []


def test_values_as_labels_without_a_column_of_labels_are_refused(tmp_path, photos, run):
    ran = run("convert", photos, tmp_path / "out", "--label_type=float")
    ran.refused("setting_not_applicable", "label_type", "input", "label_column", says=["label_type=float"])


@pytest.mark.parametrize("label_type", ["class", "text"])
def test_rows_of_one_image_are_one_sample_with_the_labels_of_all(tmp_path, photos, build, label_type):
    first, second = sorted(photos.glob("*/*"))[:2]
    cells = [(first, "cat"), (second, "dog"), (first, "dog"), (first, "cat"), (tmp_path / "missing.jpg", "cat")]
    (tmp_path / "table.csv").write_text("\n".join(["image,says", *(f"{path},{word}" for path, word in cells)]))
    flags = [f"--input={tmp_path / 'table.csv'}", "--group_rows", "--label_column=says", f"--label_type={label_type}"]
    flags += ["--allow_outside_root", "--image_size=8", "--max_failures=0.5"]
    dataset = open_dataset(build(tmp_path / "out", *flags))
    counts = {name: dataset.manifest[name] for name in ("listed", "records", "failures", "merged_rows")}
    assert counts == {"listed": 5, "records": 2, "failures": 1, "merged_rows": 2}
    name = "labels" if label_type == "class" else "label"
    labels = {example["filename"]: sorted(example[name]) for example in dataset.records("train")}
    expected = {first.name: [0, 1], second.name: [1]}
    if label_type == "text":
        expected = {file: [("cat", "dog")[index] for index in found] for file, found in expected.items()}
    assert labels == expected
    assert dataset.verify() == []
