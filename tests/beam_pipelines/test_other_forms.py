"""Files that no source reads are named, and the commands of the refusal make a dataset of them."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from beam_tfrecords.beam_pipelines.settings.hints import explain
from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.listed_records import PICTURE, commands_of, read
from tests.beam_pipelines.public_layouts import Records, in_train, unlabelled
from tests.pixel_files import save_cifar, save_mnist

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
    (folder / "data_batch_1").write_bytes(pickle.dumps({"data": [], "labels": []}))


def save_hdf5(folder: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "a.h5", "w") as file:
        file["images"], file["labels"] = PIXELS, LABELS


def save_json(folder: Path) -> None:
    (folder / "imgs").mkdir()
    for number in range(6):
        (folder / "imgs" / f"{number}.jpg").write_bytes(PICTURE)
    table = [{"image": f"imgs/{number}.jpg", "label": f"c{number % 3}"} for number in range(6)]
    (folder / "array.json").write_text(json.dumps(table, indent=2))
    (folder / "array.jsonl").write_text(json.dumps(table, indent=2))
    (folder / "lines.json").write_text("\n".join(map(json.dumps, table)))
    (folder / "named.json").write_text(json.dumps({row["image"]: row["label"] for row in table}))


# What saves a file, its name, what the refusal calls it, and what comes of its command.
FORMS: list[tuple[Callable[[Path], None], str, str, Records]] = [
    (save_hdf5, "a.h5", "an HDF5 file", SIX),
    (save_json, "array.json", "a JSON array, not JSON lines", in_train(c0=2, c1=2, c2=2)),
    (save_json, "array.jsonl", "a JSON array, not JSON lines", in_train(c0=2, c1=2, c2=2)),
    (save_json, "lines.json", "looks like JSON lines", in_train(c0=2, c1=2, c2=2)),
    (save_json, "named.json", "a JSON object of names and labels", in_train(c0=2, c1=2, c2=2)),
]  # fmt: skip


@pytest.mark.parametrize(("save", "name", "what", "records"), FORMS, ids=[form[1] for form in FORMS])
def test_a_form_that_no_source_reads_is_named_and_its_command_is_right(save, name, what, records, tmp_path):
    folder = tmp_path / "it's here"
    folder.mkdir()
    save(folder)
    if not (folder / name).exists():
        pytest.skip("no program here writes this form")
    argv = [f"--input={folder / name}", "--output=out"]
    with pytest.raises(RequestError) as refused:
        read(argv, tmp_path / "listing")
    lines = explain(refused.value, "convert", argv)
    assert what in lines[0]
    (command,) = commands_of(lines)
    for line in lines[2:-1]:
        subprocess.run(["bash", "-c", line], check=True, env={**os.environ, "PATH": PATH}, cwd=tmp_path)
    assert read(command, tmp_path / "listing1")[0] == records


@pytest.mark.parametrize(
    ("name", "start", "what", "program"),
    [
        ("t.xlsx", b"PK\x03\x04", "an Excel table", "pandas.read_excel"),
        ("t.csv", b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", "an Excel table", "pandas.read_excel"),
        ("t.xls", b"\xd0\xcf\x11\xe0", "an Excel table", "pandas.read_excel"),
        ("a.7z", b"7z\xbc\xaf", "a 7z archive", "7z x -o"),
        ("a.rar", b"Rar!", "a RAR archive", "7z x -o"),
        ("a.pkl", b"\x80\x04", "a pickle, which may run any code", "pandas.read_pickle"),
        ("a.pt", b"PK\x03\x04", "a file of PyTorch", "torch.load"),
        ("data.mdb", b"", "an LMDB database", "lmdb.open"),
        ("unknown", b"\x89HDF\r\n", "an HDF5 file", "h5py.File"),
    ],
)
def test_a_form_is_known_by_its_name_or_its_first_bytes(tmp_path, name, start, what, program):
    (tmp_path / name).write_bytes(start)
    argv = [f"--input={tmp_path / name}", "--output=out"]
    with pytest.raises(RequestError) as refused:
        read(argv, tmp_path / "listing")
    line, _, before, command = explain(refused.value, "convert", argv)
    assert what in line
    assert "folder that holds" not in line
    assert program in before
    assert f"--input={tmp_path / name}." in command


def test_a_pickle_of_cifar_is_refused_with_the_version_that_is_read(tmp_path):
    save_arrays(tmp_path)
    with pytest.raises(RequestError, match=r"CIFAR's Python version .*cifar-10-binary.tar.gz") as refused:
        read([f"--input={tmp_path / 'data_batch_1'}", "--output=out"], tmp_path / "listing")
    assert refused.value.choices == ()


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
    with pytest.raises(RequestError, match="no image found") as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert flag.format(tmp_path) in command
    assert read(command, tmp_path / "listing1")[0] == records


@pytest.mark.parametrize(
    ("name", "row", "message", "records"),
    [
        ("t.csv", "{label},{image},x", "looks like data", in_train(**{"0": 2, "1": 2})),
        ("t.tsv", "{image}\t{label}", "looks like data", in_train(**{"0": 2, "1": 2})),
        ("list.txt", "{image} {label}", "looks like a list of images", in_train(**{"0": 2, "1": 2})),
        ("list.txt", "{image}", "looks like a list of images", unlabelled(train=4)),
    ],
)
def test_a_table_without_a_header_is_refused_with_a_command_that_writes_one(tmp_path, name, row, message, records):
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(PICTURE)
    lines = [row.format(image=f"{number}.jpg", label=number % 2) for number in range(4)]
    (tmp_path / name).write_text("\n".join([*lines, ""]))
    argv = [f"--input={tmp_path / name}", "--output=out"]
    with pytest.raises(RequestError, match=message) as refused:
        read(argv, tmp_path / "listing")
    _, _, before, _ = shown = explain(refused.value, "convert", argv)
    subprocess.run(["bash", "-c", before], check=True)
    assert read(*commands_of(shown), tmp_path / "listing1")[0] == records


def test_the_command_keeps_the_other_inputs_and_their_splits(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(PICTURE)
    (tmp_path / "list.txt").write_text("0.jpg a\n1.jpg b\n2.jpg b\n")
    (tmp_path / "more.csv").write_text("image label\n3.jpg a\n")
    argv = [f"--input=train={tmp_path / 'list.txt'}", f"--input=test={tmp_path / 'more.csv'}", "--output=out"]
    with pytest.raises(RequestError) as refused:
        read(argv, tmp_path / "listing")
    _, _, before, _ = lines = explain(refused.value, "convert", argv)
    subprocess.run(["bash", "-c", before], check=True, env={**os.environ, "PATH": PATH})
    assert read(*commands_of(lines), tmp_path / "listing1")[0] == {"train": {"a": 1, "b": 2}, "test": {"a": 1}}


def test_the_command_replaces_no_file(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(PICTURE)
    (tmp_path / "train").write_text("0.jpg x\n1.jpg y\n")
    (tmp_path / "train.csv").write_text("image,label\n2.jpg,a\n3.jpg,a\n")
    argv = [f"--input={tmp_path / 'train'}", "--output=out"]
    with pytest.raises(RequestError, match="looks like a list of images") as refused:
        read(argv, tmp_path / "listing")
    (choice,) = refused.value.choices
    assert (choice.meaning, choice.before) == ("the columns image label, which are there already", ())


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
    with pytest.raises(RequestError, match="the images are directly in it") as refused:
        read(argv, tmp_path / "listing")
    first, *_ = commands_of(explain(refused.value, "convert", argv))
    assert first[2:] == ["--source=hf_folder", *flags.split()]
    listed, _ = read(first, tmp_path / "listing")
    assert sum(sum(classes.values()) for classes in listed.values()) == 3


def test_a_folder_of_tfrecords_is_told_by_its_files(tmp_path, photos, build):
    dataset = build(tmp_path / "old", f"--input={photos}", "--image_size=8")
    argv = [f"--input={dataset}", "--output=out"]
    with pytest.raises(RequestError, match="no image found") as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert command == [*argv, "--source=tfrecord"]
    assert read(command, tmp_path / "listing1")[0]["train"]["cat"] == 6
