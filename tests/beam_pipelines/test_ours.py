"""What is ours to delete and to overwrite: what carries our mark or stands in our list, and nothing else."""

from __future__ import annotations

import json
import shutil

import pytest

from beam_tfrecords.transforms.workspace.build_folder import Workspace
from tests.beam_pipelines.version_builds import CLASSES, Source, make_source

FLAGS = ["--name=pets", "--image_size=8"]
# Every name that a build may write to its output.
NAMES = (
    "label_map.pbtxt",
    "README.md",
    "features.json",
    "dataset_info.json",
    "croissant.json",
    "changes.json",
    "failures.jsonl",
    "duplicates.jsonl",
    "manifest.json",
    "report.html",
    "label.labels.txt",
    "mine.tfrecord",
    "index/mine.parquet",
)


@pytest.fixture
def source(tmp_path, picture, save, convert) -> Source:
    return make_source(tmp_path, 12, picture=picture, save=save, convert=convert)


@pytest.fixture
def pets(source) -> str:
    return f"--input={source.folder}"


# Files of an output


@pytest.mark.parametrize("name", NAMES)
def test_a_build_that_published_nothing_does_not_make_files_of_others_ours(source, pets, convert, snapshot, name):
    bad = source.folder / "cat/bad.png"
    bad.write_bytes(b"not a picture")
    refused = [pets, f"--output={source.output}", *FLAGS]
    assert convert(*refused, "--max_failures=0").code == 3
    theirs = source.output / name
    was_ours = theirs.exists()
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("theirs")
    ran = convert(*refused, "--max_failures=1", "--overwrite")
    if was_ours:  # the build has written it
        assert ran.code == 0
        return
    ran.refused("output_not_empty", "output", says=[f"{name}; "])
    assert theirs.read_text() == "theirs"


def test_what_the_new_dataset_does_not_have_goes_with_overwrite(source, pets, convert, snapshot):
    assert convert(pets, f"--output={source.output}", *FLAGS, "--no_report").code == 0
    expected = sorted(snapshot(source.output))
    names = ["label_map.pbtxt", "other.labels.txt", "changes.json"]
    (source.output / ".build").mkdir()
    (source.output / ".build/claimed").write_text(json.dumps({"files": names, "replaced": []}))
    for name in names:
        (source.output / name).write_text("of an earlier build of ours")
    assert convert(pets, f"--output={source.output}", *FLAGS, "--no_report", "--overwrite").code == 0
    assert sorted(snapshot(source.output)) == expected


@pytest.mark.parametrize("words", [[], ["--overwrite"]])
def test_a_folder_with_other_files_is_refused(source, pets, convert, snapshot, words):
    source.output.mkdir()
    (source.output / "setup.py").write_text("theirs")
    before = snapshot(source.output)
    ran = convert(pets, f"--output={source.output}", *FLAGS, *words)
    ran.refused("output_not_empty", "output", says=["setup.py"])
    assert snapshot(source.output) == before


def test_hidden_files_do_not_make_a_folder_somebodys(source, pets, convert):
    (source.output / "lost+found").mkdir(parents=True)
    (source.output / ".gitkeep").touch()
    assert convert(pets, f"--output={source.output}", *FLAGS).code == 0


def test_a_file_named_latest_of_somebody_is_not_overwritten(source):
    source.output.mkdir()
    (source.output / "LATEST").write_text("v12\n")
    ran = source.build()
    ran.refused("invalid_latest", "output")
    assert (source.output / "LATEST").read_text() == "v12\n"


# Versions


def test_eight_nights_with_keep_seven_leave_the_seven_newest(source, picture, save):
    names: list[str] = []
    for night in range(8):
        save(source.folder / "cat/000.png", picture(100 + night, 30, 40))
        ran = source.build("--keep_versions=7", "--grace=0s", "--no_report")
        assert ran.code == 0, ran.err
        names.append(source.latest.name)
    assert source.versions == names[1:]
    assert f"removed: version {names[0]}" in ran.out


def test_a_removal_leaves_files_of_others_and_what_links_lead_to(source, picture, save, tmp_path):
    assert source.build().code == 0
    first = source.latest
    (first / "notes.txt").write_text("theirs")
    shutil.move(first / "index", tmp_path / "index")
    (first / "index").symlink_to(tmp_path / "index")
    indices = sorted((tmp_path / "index").iterdir())
    for night in range(2):
        save(source.folder / "cat/000.png", picture(100 + night, 30, 40))
        assert source.build("--keep_versions=1", "--grace=0s").code == 0
    assert sorted(path.name for path in first.iterdir()) == ["index", "notes.txt"]
    assert sorted((tmp_path / "index").iterdir()) == indices


@pytest.mark.parametrize("keep", [[], ["--keep_versions=1", "--grace=0s"]])
def test_a_folder_named_like_a_version_that_no_build_has_begun_is_not_touched(source, picture, save, snapshot, keep):
    assert source.build().code == 0
    day = source.output / "20261122T030000Z"
    for number in range(3):
        save(day / f"{CLASSES[number]}/{number}.png", picture(number, 20, 30))
    before = snapshot(day)
    for night in range(2):
        save(source.folder / "cat/000.png", picture(100 + night, 30, 40))
        assert source.build(*keep).code == 0
        assert snapshot(day) == before


def test_a_version_that_a_build_left_unfinished_is_removed_by_another_build(source, picture, save):
    assert source.build().code == 0
    for path in sorted(source.folder.rglob("*.png"))[:8]:
        path.unlink()
    assert source.build().code == 3
    (version,) = Workspace(str(source.output)).list_versions()
    left = source.output / version
    left.mkdir()
    (left / "pets-train.tfrecord-00000-of-00001").touch()
    (left / "notes.txt").touch()
    save(source.folder / "cat/000.png", picture(100, 30, 40))
    ran = source.build("--accept=all")
    assert ran.code == 0, ran.err
    assert [path.name for path in left.iterdir()] == ["notes.txt"]
    assert not (source.output / ".build").exists()


# `.build/`


def test_a_link_named_like_our_folder_is_refused(source, pets, convert, snapshot, tmp_path):
    source.output.mkdir()
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "photo.png").write_text("theirs")
    (source.output / ".build").symlink_to(theirs)
    for words in ([], ["--versioned"]):
        ran = convert(pets, f"--output={source.output}", *FLAGS, *words)
        ran.refused("linked_workspace", "output", says=[".build links to "])
    assert sorted(snapshot(theirs)) == ["./", "photo.png"]


def test_what_others_have_put_into_our_folder_stays(source, pets, convert):
    theirs = source.output / ".build/mine/photo.png"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    assert convert(pets, f"--output={source.output}", *FLAGS).code == 0
    assert [path.name for path in (source.output / ".build").rglob("*")] == ["mine", "photo.png"]
