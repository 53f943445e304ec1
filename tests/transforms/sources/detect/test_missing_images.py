"""Tables whose images are at other paths than they say are refused with a command that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from tests.beam_pipelines.listed_records import PICTURE, commands_of, read
from tests.refusals import refuses

# Files, the cell of the column `image` for each, more flags, and what the command says.
CASES = [
    ("extension", "a/{}.jpg", "a/{}", [], "--image_path='{image}.jpg'"),
    ("extension, column named", "a/{}.jpg", "a/{}", ["--image_column=image"], "--image_path='{image}.jpg'"),
    ("extension, pattern given", "a/{}.PNG", "{}", ["--image_path=a/{image}"], "--image_path='a/{image}.PNG'"),
    ("folder", "images/{}.jpg", "{}.jpg", [], "--image_root="),
    ("folder and extension", "train/{}.png", "{}", [], "--image_path='{image}.png'"),
    ("folder beside the root", "{}.jpg", "{}.jpg", ["--image_root=images"], "--image_root="),
    ("id", "img/7{}.jpg", "photo {}", [], "--image_path='img/{Image ID}.jpg'"),
]


@pytest.fixture
def table(tmp_path):
    """A table of six images, in a folder with them; returns its path."""

    def write(file: str, cell: str) -> Path:
        for number in range(6):
            path = tmp_path / "in it" / file.format(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(PICTURE)
        lines = [f"{cell.format(number)};{'ab'[number % 2]};7{number}" for number in range(6)]
        (tmp_path / "in it" / "t.csv").write_text("\n".join(["image;label;Image ID", *lines]))
        return tmp_path / "in it" / "t.csv"

    return write


@pytest.mark.parametrize(("file", "cell", "flags", "says"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_images_at_similar_paths_are_found_and_the_command_is_right(table, tmp_path, file, cell, flags, says):
    path = table(file, cell)
    argv = [f"--input={path}", "--output=out", *flags]
    with refuses("missing_images", "input", says=["first 5 images"]) as refused:
        read(argv, tmp_path / "listing")
    lines = explain(refused.value, "convert", argv)
    (command,) = commands_of(lines)
    assert says in lines[-1]
    assert read(command, tmp_path / "listing1")[0] == {"train": {"a": 3, "b": 3}}


@pytest.mark.parametrize(
    ("file", "cell"),
    [
        ("a/{}.png", "a/{}.jpg"),
        ("{}.JPG", "{}.jpg"),
        ("dcim/img_{}.jpg", "DCIM/IMG_{}.JPG"),
        ("a/b/{}.jpg", "a\\b\\{}.jpg"),
        ("{}.jpg", "C:\\data\\{}.jpg"),
        ("test/{}.jpg", "/kaggle/input/it/test/{}.jpg"),
    ],
)
def test_paths_that_no_setting_changes_are_named(table, tmp_path, file, cell):
    argv = [f"--input={table(file, cell)}", "--output=out", "--allow_outside_root"]
    says = f"is there as '{file.format(0)}'; write the paths in the file like this"
    with refuses("missing_images", "input", says=[says]):
        read(argv, tmp_path / "listing")


def test_folders_in_another_column_are_found(tmp_path, opened):
    lines = ["folder,filename,label"]
    for number in range(4):
        path = tmp_path / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(PICTURE)
        lines.append(f"{'ab'[number % 2]},{number}.jpg,x{number % 2}")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    argv = [f"--input={tmp_path / 't.csv'}", "--output=out"]
    with refuses("missing_images", "input") as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert read(command, tmp_path / "listing1")[0] == {"train": {"x0": 2, "x1": 2}}


@pytest.mark.parametrize("cell", ["nowhere/x{}.gif", "gs://bucket/{}.jpg", "{}\0.jpg"])
def test_images_that_are_nowhere_near_are_failures_as_before(table, opened, cell):
    path = table("{}.jpg", cell)
    assert {sample.failure is not None or sample.uri.startswith("gs:") for sample in opened(path).samples()} == {True}


def test_one_image_that_is_there_is_enough(table, opened):
    path = table("{}.jpg", "{}.jpg")
    path.write_text(path.read_text().replace("0.jpg", "0.jpeg").replace("1.jpg", "1.jpeg"))
    assert [sample.failure is None for sample in opened(path).samples()] == [False, False, True, True, True, True]


def test_few_paths_are_looked_at(table, opened, monkeypatch):
    looks, is_file = [], storage.is_file
    monkeypatch.setattr(storage, "is_file", lambda path: looks.append(path) or is_file(path))
    source = opened(table("{}.jpg", "/a/b/c/d/e/f/g/x{}.jpg"), allow_outside_root=True)
    with refuses("missing_images", "input", "image_root"):
        source.check_images(1)
    assert 100 < len(looks) < 4000
