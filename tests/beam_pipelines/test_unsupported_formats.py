"""Files of unsupported formats are named, and the commands of other refusals make a dataset."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from tests.beam_pipelines.listed_records import PICTURE, commands_of, in_train, read, unlabelled
from tests.each import each
from tests.pixel_files import save_cifar, save_mnist
from tests.refusals import refuses

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])
SIX = in_train(**{"0": 2, "1": 2, "2": 2})
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def save_arrays(folder: Path) -> None:
    parts = {"train": PIXELS, "test": PIXELS}
    save_mnist(folder / "mnist", parts, dict.fromkeys(parts, LABELS))
    save_cifar(folder / "cifar/data_batch_1.bin", np.zeros((6, 32, 32, 3), np.uint8), LABELS)
    (folder / "one").mkdir()
    np.savez(folder / "one/one.npz", x=PIXELS, y=LABELS)


@each(
    "name, start, what",
    [
        ("t.xlsx", b"PK\x03\x04", "an Excel table"),
        ("t.csv", b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", "an Excel table"),
        ("t.xls", b"\xd0\xcf\x11\xe0", "an Excel table"),
        ("a.7z", b"7z\xbc\xaf", "a 7z archive"),
        ("a.rar", b"Rar!", "a RAR archive"),
        ("a.pkl", b"\x80\x04", "a pickle, which may run any code"),
        ("data_batch_1", b"\x80\x02", "a pickle of CIFAR's Python version"),
        ("a.pt", b"PK\x03\x04", "a file of PyTorch"),
        ("data.mdb", b"", "an LMDB database"),
        ("a.h5", b"", "an HDF5 file"),
        ("data-00000-of-00001.arrow", b"", "an Arrow file of Hugging Face's datasets"),
        ("train_32x32.mat", b"", "a MATLAB file"),
        ("unknown", b"MATLAB 5.0 MAT-file, Platform: GLNXA64", "a MATLAB file"),
        ("unknown", b"\x89HDF\r\n", "an HDF5 file"),
        ("a.json", b'[\n  {"image": "0.jpg", "label": "a"}]', "a JSON array"),
        ("a.jsonl", b'[\n  {"image": "0.jpg", "label": "a"}]', "a JSON array"),
        ("a.json", b'{"0.jpg": "a", "1.jpg": "b"}', "a JSON object of names and labels"),
    ],
)
def test_an_unsupported_format_is_known_by_its_name_or_its_first_bytes(tmp_path, name, start, what):
    (tmp_path / name).write_bytes(start)
    with refuses("unsupported_format", "input", says=[name, f" {what}; ", "docs/unsupported.md#"]) as refused:
        read([f"--input={tmp_path / name}", "--output=out"], tmp_path / "listing")
    assert refused.value.suggestions == ()


def test_json_lines_by_another_name_are_told_by_their_text(tmp_path):
    for number in range(6):
        (tmp_path / f"{number}.jpg").write_bytes(PICTURE)
    rows = ({"image": f"{number}.jpg", "label": f"c{number % 3}"} for number in range(6))
    (tmp_path / "lines.json").write_text("\n".join(map(json.dumps, rows)))
    argv = [f"--input={tmp_path / 'lines.json'}", "--output=out"]
    with refuses("unknown_format", "input") as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert read(command, tmp_path / "listing1")[0] == in_train(c0=2, c1=2, c2=2)


@pytest.mark.parametrize(
    ("folder", "flag", "records"),
    [
        ("mnist", "--source=idx", {**SIX, "test": SIX["train"]}),
        ("cifar", "--source=cifar", SIX),
        ("one", "--input={}/one/one.npz", SIX),
    ],
)
def test_a_folder_of_arrays_is_refused_with_what_reads_them(tmp_path, folder, flag, records):
    save_arrays(tmp_path)
    argv = [f"--input={tmp_path / folder}", "--output=out"]
    with refuses("no_samples", "input") as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert flag.format(tmp_path) in command
    assert read(command, tmp_path / "listing1")[0] == records


@pytest.mark.parametrize(
    ("name", "row", "records"),
    [
        ("t.csv", "{label},{image},x", in_train(**{"0": 2, "1": 2})),
        ("t.tsv", "{image}\t{label}", in_train(**{"0": 2, "1": 2})),
        ("s.csv", "{image},{split},{label}", {"train": {"0": 2}, "test": {"1": 2}}),
    ],
)
def test_a_table_without_a_header_is_read(tmp_path, name, row, records):
    argv = [f"--input={write_rows(tmp_path, name, row)}", "--output=out"]
    assert read(argv, tmp_path / "listing")[0] == records


@pytest.mark.parametrize(
    ("name", "row", "records"),
    [
        ("s.txt", "{image} {split} {label}", {"train": {"0": 2}, "test": {"1": 2}}),
        ("list.txt", "{image} {label}", in_train(**{"0": 2, "1": 2})),
        ("train", "{image} {label}", in_train(**{"0": 2, "1": 2})),
        ("list.txt", "{image}", unlabelled(train=4)),
    ],
)
def test_a_list_without_an_extension_of_tables_is_refused_with_a_command_that_reads_it(tmp_path, name, row, records):
    argv = [f"--input={write_rows(tmp_path, name, row)}", "--output=out"]
    with refuses("unknown_format", "input", says=["list of images"]) as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert read(command, tmp_path / "listing1")[0] == records


def test_the_command_keeps_the_other_inputs_and_their_splits(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(PICTURE)
    (tmp_path / "list.txt").write_text("0.jpg a\n1.jpg b\n2.jpg b\n")
    (tmp_path / "more.csv").write_text("image,label\n3.jpg,a\n")
    argv = [f"--input=train={tmp_path / 'list.txt'}", f"--input=test={tmp_path / 'more.csv'}", "--output=out"]
    with refuses("unknown_format", "input") as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert read(command, tmp_path / "listing1")[0] == {"train": {"a": 1, "b": 2}, "test": {"a": 1}}


@pytest.mark.parametrize(
    ("name", "row", "settings"),
    [
        ("t.csv", "{image},{label},{split}x", [{"label_column": "column_3"}, {"label_column": "label"}]),
        (
            "t.txt",
            "{image} big word{label}",
            [{"label_separator": "", "label_column": "label"}, {"label_type": "text", "label_column": "label"}],
        ),
        ("t.txt", "{image} {label} {other}", [{"label_columns": "label,column_3"}]),
    ],
)
def test_several_columns_without_names_that_may_be_labels_are_a_question(tmp_path, name, row, settings):
    argv = [f"--input={write_rows(tmp_path, name, row)}", "--source=csv", "--output=out"]
    with refuses("unclear_label_column", "input", "label_column", says=["no header"]) as refused:
        read(argv, tmp_path / "listing")
    assert [one.settings for one in refused.value.suggestions] == [*settings, {"layout": "image"}]


def test_cells_that_may_be_several_classes_are_a_question(tmp_path):
    argv = [f"--input={write_rows(tmp_path, 't.csv', '{image},w{label}|x')}", "--output=out"]
    with refuses("unclear_labels", "input", "label_separator", says=["'w0|x'"]) as refused:
        read(argv, tmp_path / "listing")
    several, one = commands_of(explain(refused.value, "convert", argv))
    assert read(one, tmp_path / "listing1")[0] == in_train(**{"w0|x": 2, "w1|x": 2})
    assert read(several, tmp_path / "listing2")[0] == in_train(**{"['w0', 'x']": 2, "['w1', 'x']": 2})


def test_texts_of_several_words_are_no_classes_without_a_word(tmp_path):
    for number in range(8):
        (tmp_path / f"{number}.jpg").write_bytes(PICTURE)
    texts = [
        "a dog runs",
        "the red car",
        "grey",
        "no acute findings",
        "two people on bikes",
        "a plate",
        "a b c",
        "d e f",
    ]
    (tmp_path / "t.csv").write_text("\n".join(["image,label", *(f"{n}.jpg,{text}" for n, text in enumerate(texts))]))
    argv = [f"--input={tmp_path / 't.csv'}", "--output=out"]
    with refuses("unclear_labels", "input", "label_type", says=["8 texts in 8 rows"]) as refused:
        read(argv, tmp_path / "listing")
    as_text, as_classes = commands_of(explain(refused.value, "convert", argv))
    assert "--label_type=text" in as_text
    assert read(as_text, tmp_path / "listing1")[0] == unlabelled(train=8)
    assert read(as_classes, tmp_path / "listing2")[0] == in_train(**dict.fromkeys(texts, 1))


def write_rows(folder, name, row):
    for number in range(4):
        (folder / f"{number}.jpg").write_bytes(PICTURE)
    splits = ("training", "test")
    lines = [row.format(image=f"{n}.jpg", label=n % 2, other=n // 2, split=splits[n % 2]) for n in range(4)]
    (folder / name).write_text("\n".join([*lines, ""]))
    return folder / name


@pytest.mark.parametrize(
    ("header", "cells", "flags"),
    [
        ("file_name,text", ["a small cat", "a dog on grass", "another dog"], "--label_column=text --label_type=text"),
        ("file_name,label", ["cat", "dog", "dog"], "--label_column=label"),
        ("file_name,width,height", ["20,30", "20,30", "20,30"], "--layout=image"),
    ],
)
def test_metadata_beside_images_is_read_as_hugging_face_does(tmp_path, header, cells, flags):
    (tmp_path / "in").mkdir()
    lines = [header]
    for number, cell in enumerate(cells):
        (tmp_path / f"in/{number}.jpg").write_bytes(PICTURE)
        lines.append(f"{number}.jpg,{cell}")
    (tmp_path / "in/metadata.csv").write_text("\n".join(lines) + "\n")
    argv = [f"--input={tmp_path / 'in'}", "--output=out"]
    with refuses("no_class_folders", "input", "label_pattern", says=["directly in it"]) as refused:
        read(argv, tmp_path / "listing")
    first, *_ = commands_of(explain(refused.value, "convert", argv))
    assert first[2:] == ["--source=hf_folder", *flags.split()]
    listed, _ = read(first, tmp_path / "listing")
    assert sum(sum(classes.values()) for classes in listed.values()) == 3


def test_a_folder_of_tfrecords_is_told_by_its_files(tmp_path, photos, build):
    dataset = build(tmp_path / "old", f"--input={photos}", "--image_size=8")
    # What makes it a dataset of ours.
    (dataset / "manifest.json").unlink()
    argv = [f"--input={dataset}", "--output=out"]
    with refuses("no_samples", "input") as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert command == [*argv, "--source=tfrecord"]
    assert read(command, tmp_path / "listing1")[0]["train"]["cat"] == 6
