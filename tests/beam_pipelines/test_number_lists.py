"""Lists of bare numbers, as ImageNet's development kit has them: joined to images by a command alone."""

from __future__ import annotations

import os
import subprocess

import pytest

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.listed_records import commands_of, read, write_layout
from tests.beam_pipelines.public_layouts import Layout
from tests.refusals import refuses

NAME = "ILSVRC2012_validation_ground_truth.txt"


@pytest.fixture
def refuse(tmp_path):
    """Makes a tree; returns the lines of its refusal, and its folder."""

    def run(files: str, numbers: str, name: str = NAME) -> tuple[list[str], str]:
        root = write_layout(Layout("numbers", files, tables={name: numbers}), tmp_path)
        with pytest.raises(RequestError) as refused:
            read([f"--input={root}", "--output=out"], tmp_path / "listing")
        return explain(refused.value, "convert", [f"--input={root}", "--output=out"]), str(root)

    return run


def offers(lines: list[str]) -> list[str]:
    return [line for line in lines if line.lstrip().startswith("the numbers of")]


@pytest.mark.parametrize(
    ("files", "name", "split"),
    [
        ("val/ILSVRC2012_val_0000000{1..4}.JPEG", NAME, "validation"),
        ("I+x_0000000{1..4}.JPEG", NAME, "validation"),
        ("test/{01..04}.png", "data/test_labels.txt", "test"),
        ("train/{n01,n02}/{1..3}.JPEG val/v_{1..4}.JPEG", NAME, "validation"),
    ],
)
def test_as_many_numbers_as_images_are_offered_in_the_order_of_the_names(refuse, tmp_path, files, name, split):
    lines, _ = refuse(files, "7\n3\n3\n7\n", name)
    (offer,) = offers(lines)
    place = lines.index(offer)
    before, command = lines[place + 1], commands_of(lines[place + 2 :])[0]
    subprocess.run(["bash", "-euc", before], check=True)
    assert read(command, tmp_path / "listing1")[0] == {split: {"3": 2, "7": 2}}
    (table,) = tmp_path.rglob("*.txt.csv")
    assert [line.rpartition(",")[2] for line in table.read_text().splitlines()] == ["label", "7", "3", "3", "7"]
    images = [line.rpartition(",")[0] for line in table.read_text().splitlines()[1:]]
    assert images == sorted(images)


def test_a_command_that_finds_another_number_of_images_writes_nothing(refuse, tmp_path):
    lines, root = refuse("val/{1..4}.jpg", "7\n3\n3\n7\n")
    os.unlink(f"{root}/val/1.jpg")
    ran = subprocess.run(["bash", "-euc", lines[2]], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (1, "3 images, but 4 numbers\n")
    assert not [*tmp_path.rglob("*.csv")]


def test_another_number_is_named_and_not_offered(refuse):
    lines, _ = refuse("val/{1..4}.jpg", "7\n3\n3\n")
    assert f"{NAME} has 3 numbers, and no folder as many images" in lines[0]
    assert offers(lines) == []


@pytest.mark.parametrize(
    ("files", "numbers"),
    [
        ("val/{8..11}.jpg", "7\n3\n3\n7\n"),  # 10 is before 8
        ("{val,test}/{1..4}.jpg", "7\n3\n3\n7\n"),  # of which folder?
        ("val/{1..4}.jpg", "cat\ndog\ndog\ncat\n"),
    ],
)
def test_what_is_not_certain_is_not_offered(refuse, files, numbers):
    lines, _ = refuse(files, numbers)
    assert offers(lines) == []


def test_the_command_replaces_no_file(refuse, tmp_path):
    table = "image,label\n1.jpg,7\n2.jpg,3\n3.jpg,3\n4.jpg,7\n"
    root = write_layout(Layout("there", "val/{1..4}.jpg", tables={f"{NAME}.csv": table}), tmp_path)
    lines, _ = refuse("val/{1..4}.jpg", "7\n3\n3\n7\n")
    assert "which are there already" in offers(lines)[0]
    assert not any("python3 -c" in line for line in lines)
    assert (root / f"{NAME}.csv").read_text() == table


def test_a_list_of_numbers_by_itself_is_named(tmp_path):
    (tmp_path / NAME).write_text("490\n361\n171\n")
    with refuses("number_list", "input"):
        read([f"--input={tmp_path / NAME}", "--output=out"], tmp_path / "listing")
