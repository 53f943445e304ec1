"""Where an output may be: no part of what is read, and nothing around it, whatever the names of both."""

from __future__ import annotations

import os

import pytest

FLAGS = ["--name=pets", "--image_size=8"]


@pytest.fixture
def data(tmp_path, picture, save, monkeypatch):
    """A folder with pictures, a table of them and masks; it is the current folder."""
    for number in range(4):
        save(tmp_path / f"data/photos/{('cat', 'dog')[number % 2]}/{number}.png", picture(number, 20, 30))
    rows = [f"photos/{('cat', 'dog')[number % 2]}/{number}.png,{number % 2}" for number in range(4)]
    (tmp_path / "data/labels.csv").write_text("\n".join(["path,label", *rows]) + "\n")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / "photos").symlink_to(tmp_path / "data/photos")
    monkeypatch.chdir(tmp_path / "data")
    return tmp_path


@pytest.mark.parametrize("words", [[], ["--versioned"], ["--dry_run"]])
@pytest.mark.parametrize(
    ("inputs", "output", "said"),
    [
        (["photos"], "photos", "lies inside"),
        (["photos"], "photos/out", "lies inside"),
        (["photos/"], "photos/cat/../out", "lies inside"),
        (["photos"], "../link/photos/out", "lies inside"),
        (["../link/photos"], "photos/out", "lies inside"),
        (["../photos"], "photos/out/", "lies inside"),
        (["photos/*/*.png"], "photos/out", "lies inside"),
        (["../link/photos/**"], "photos/cat/out", "lies inside"),
        (["photos/c*", "photos/dog"], "photos/dog/out", "lies inside"),
        (["photos"], ".", "holds"),
        (["photos"], "..", "holds"),
        (["../photos"], "../link", "holds"),
        (["labels.csv"], ".", "holds"),
        (["../link/labels.csv"], "../data/", "holds"),
        (["photos/*/*.png"], "../link", "holds"),
        (["photos/cat/*.png", "photos/dog/*.png"], "photos", "holds"),
        (["photos/{cat,dog}/*.png"], "photos", "holds"),
        (["photos/cat"], "photos", "holds"),
    ],
)
def test_an_output_inside_or_around_the_input_is_refused(data, convert, snapshot, inputs, output, said, words):
    before = snapshot(data)
    ran = convert(*(f"--input={one}" for one in inputs), f"--output={output}", *FLAGS, *words)
    ran.refused("overlapping_folders", "output", "input", says=[f"{said} `input="])
    assert snapshot(data) == before


@pytest.mark.parametrize("setting", ["image_root", "mask_root"])
def test_an_output_around_another_folder_that_is_read_is_refused(data, convert, setting):
    ran = convert("--input=labels.csv", "--output=../photos", f"--{setting}=../link/photos/cat", *FLAGS)
    ran.refused("overlapping_folders", "output", setting, says=["holds "])


def test_an_output_inside_of_what_is_reused_is_refused(data, convert):
    ran = convert("--input=photos", "--output=../link/out/20260101T000000Z", "--reuse=out", *FLAGS)
    ran.refused("overlapping_folders", "output", "reuse", says=["lies inside "])


@pytest.mark.parametrize(
    ("inputs", "output"),
    [(["labels.csv"], "out"), (["*.csv"], "out"), (["photos"], "photos-out"), (["photos"], "../link/out")],
)
def test_an_output_beside_the_input_is_built(data, convert, inputs, output):
    ran = convert(*(f"--input={one}" for one in inputs), f"--output={output}", *FLAGS, "--no_report")
    assert ran.code == 0, ran.err
    assert os.path.exists(f"{output}/_SUCCESS")


def test_a_version_is_no_input_of_the_next_one(data, convert):
    assert convert("--input=photos", "--output=out", "--versioned", *FLAGS, "--no_report").code == 0
    version = (data / "data/out/LATEST").read_text().strip()
    for name in (f"out/{version}", f"../link/out/{version}/*.tfrecord-*"):
        ran = convert(f"--input={name}", "--output=out", "--versioned", *FLAGS)
        ran.refused("overlapping_folders", "output", "input", says=["holds "])
