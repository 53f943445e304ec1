"""What is in the output folder before, during and after a build, whose it is, and where an output may be."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of, restore_sources, shards_of, spoil_sources
from tests.each import each
from tests.trees import write_tree

FLAGS = ["--name=pets", "--image_size=8"]
# Every name that a build may write to its output, and names like them.
NAMES = (
    *("label_map.pbtxt", "README.md", "features.json", "dataset_info.json", "croissant.json", "changes.json"),
    *("failures.jsonl", "duplicates.jsonl", "manifest.json", "report.html", "label.labels.txt", "breed.labels.txt"),
    *("mine.tfrecord", "index/mine.parquet", "pets-train.tfrecord-00000-of-00099", "setup.py"),
)
METADATA = (
    *("dataset_info.json", "features.json", "manifest.json", "_SUCCESS", "failures.jsonl", "duplicates.jsonl"),
    *("README.md", "label.labels.txt"),
)


@pytest.fixture(scope="module")
def pets(tmp_path_factory) -> Path:
    return write_tree(tmp_path_factory.mktemp("folder") / "pets", "cat/{0..3}.png dog/{4..7}.png")


@pytest.fixture(scope="module")
def broken(pets) -> Path:
    """The pets, and two files that are no images."""
    root = Path(shutil.copytree(pets, pets.parent / "broken"))
    return write_tree(root, files={"cat/bad.png": "broken", "dog/e.png": "empty"})


@pytest.fixture(scope="module")
def finished(pets, build) -> Path:
    """A dataset of the pets; read only."""
    return build(pets.parent / "finished", f"--input={pets}", *FLAGS)


# Files of others.


@each("flags", [[], ["--overwrite"]])
@each("name", NAMES)
def test_a_folder_with_files_of_others_is_refused(pets, tmp_path, convert, snapshot, name, flags):
    out = write_tree(tmp_path / "out [1]", files={name: "theirs"})
    before = snapshot(tmp_path)
    ran = convert(f"--input={pets}", f"--output={out}", *FLAGS, *flags)
    ran.refused("output_not_empty", "output", says=[f"output={out}", name])
    assert snapshot(tmp_path) == before


@each("name", NAMES[:-1])
def test_a_build_that_published_nothing_does_not_make_files_of_others_ours(broken, tmp_path, convert, name):
    words = [f"--input={broken}", f"--output={tmp_path / 'out'}", *FLAGS]
    assert convert(*words, "--max_failures=0").code == 3
    theirs = tmp_path / "out" / name
    if theirs.exists():  # the build has written it
        assert convert(*words, "--max_failures=1", "--overwrite").code == 0
        return
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("theirs")
    ran = convert(*words, "--max_failures=1", "--overwrite")
    ran.refused("output_not_empty", "output", says=[f"{name}; "])
    assert theirs.read_text() == "theirs"


def test_a_success_of_another_program_and_a_shard_of_others_beside_ours_are_not_overwritten(
    finished, pets, tmp_path, convert, snapshot
):
    spark = write_tree(tmp_path / "spark", files={"_SUCCESS": "", "part-00000.tfrecord": ""})  # as Spark writes them
    ran = convert(f"--input={pets}", f"--output={spark}", *FLAGS, "--overwrite")
    ran.refused("output_not_empty", "output", says=["_SUCCESS, part-00000.tfrecord; "])
    assert sorted(snapshot(spark)) == ["./", "_SUCCESS", "part-00000.tfrecord"]
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    (out / "pets-train.tfrecord-00007-of-00008").write_text("theirs")
    ran = convert(f"--input={pets}", f"--output={out}", *FLAGS, "--overwrite")
    ran.refused("output_not_empty", "output", says=["pets-train.tfrecord-00007-of-00008; "])


def test_hidden_files_and_what_others_have_put_into_our_folder_stay(pets, tmp_path, build):
    names = ["lost+found/x", ".gitkeep", ".build/mine/photo.png"]
    out = write_tree(tmp_path / "out", files={name: b"theirs" for name in names if "+" not in name})
    (out / "lost+found").mkdir()
    build(out, f"--input={pets}", *FLAGS)
    assert [path.name for path in (out / ".build").rglob("*")] == ["mine", "photo.png"]


@pytest.mark.parametrize("words", [[], ["--versioned"]])
def test_a_link_named_like_our_folder_is_refused(pets, tmp_path, convert, snapshot, words):
    theirs = write_tree(tmp_path / "theirs", "photo.png")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/.build").symlink_to(theirs)
    before = snapshot(theirs)
    ran = convert(f"--input={pets}", f"--output={tmp_path / 'out'}", *FLAGS, *words)
    ran.refused("linked_workspace", "output", says=[".build links to "])
    assert snapshot(theirs) == before


# Overwriting.


def test_overwrite_removes_the_old_files_of_ours_alone(finished, pets, tmp_path, build, snapshot):
    old = Path(shutil.copytree(finished, tmp_path / "out"))
    again = build(old, f"--input={pets}", *FLAGS, "--overwrite")
    assert snapshot(again) == snapshot(finished)
    write_tree(old, files={"notes.md": "mine", "index/notes.md": "mine too"})
    # An earlier build of ours has claimed them.
    claimed = ["label_map.pbtxt", "other.labels.txt", "changes.json"]
    write_tree(old, files={".build/claimed": json.dumps({"files": claimed, "replaced": []})})
    write_tree(old, files=dict.fromkeys(claimed, "of an earlier build"))
    build(old, f"--input={pets}", "--name=new", "--image_size=8", "--overwrite", "--no_report")
    shard, index = "new-train.tfrecord-00000-of-00001", "index/new-train-00000-of-00001.parquet"
    found = {*snapshot(old)} - {"croissant.json"}
    assert found == {"./", "index/", "notes.md", "index/notes.md", shard, index, *METADATA}


@pytest.mark.parametrize("was_there", [True, False])
def test_a_refused_request_leaves_the_output_as_it_was(tmp_path, convert, was_there):
    out = tmp_path / "out"
    if was_there:
        out.mkdir()
    assert convert("--input=/not/there", f"--output={out}").code == 2
    assert out.exists() == was_there
    assert not was_there or list(out.iterdir()) == []


# After an unfinished build.


@pytest.mark.any_workers
def test_a_build_of_which_too_many_fail_publishes_their_list_and_a_higher_limit_resumes_it(
    broken, finished, tmp_path, convert, build, snapshot
):
    out, flags = tmp_path / "out", [f"--input={broken}", *FLAGS]
    ran = convert(f"--output={out}", *flags, "--max_failures=0.1")
    assert ran.code == 3
    assert all(part in ran.err for part in ("2 of 10", "--max_failures", f"{out}/failures.jsonl"))
    assert sorted(snapshot(out, without=[".build"])) == ["./", "duplicates.jsonl", "failures.jsonl"]
    failures = [json.loads(line) for line in (out / "failures.jsonl").read_text().splitlines()]
    assert {one["key"]: (one["uri"], one["stage"], one["reason"]) for one in failures} == {
        "cat/bad.png": ("broken/cat/bad.png", "decode", "not_an_image"),
        "dog/e.png": ("broken/dog/e.png", "read", "empty"),
    }
    spoilt = spoil_sources(out, broken.parent)
    try:
        assert len(spoilt) == 8
        manifest = manifest_of(build(out, *flags, "--max_failures=0.2"))
        assert (manifest["records"], manifest["failures"]) == (8, 2)
        assert manifest["splits"]["train"]["failures"] == 2
        # Bad images beside them change no record.
        assert shards_of(out) == shards_of(finished)
    finally:
        restore_sources(spoilt)


def test_a_finished_dataset_stays_as_it_is_if_the_new_build_fails(broken, finished, tmp_path, convert, snapshot):
    old = Path(shutil.copytree(finished, tmp_path / "out"))
    before = snapshot(old)
    ran = convert(f"--input={broken}", f"--output={old}", "--max_failures=0", "--image_size=8", "--overwrite")
    assert ran.code == 3
    assert snapshot(old, without=[".build"]) == before
    (listed,) = [line for line in ran.err.splitlines() if "failures.jsonl" in line]
    assert len(Path(listed[listed.index(str(tmp_path)) :]).read_text().splitlines()) == 2


def test_a_changed_input_takes_nothing_from_an_unfinished_build(pets, broken, tmp_path, convert, build):
    out = tmp_path / "out"
    assert convert(f"--input={broken}", f"--output={out}", *FLAGS, "--max_failures=0").code == 3
    (unfinished,) = filter(Path.is_dir, out.glob(".build/*"))
    build(out, f"--input={pets}", *FLAGS, "--max_failures=0")
    assert not unfinished.exists()
    assert not (out / ".build").exists()


@pytest.mark.nightly
def test_what_a_writer_killed_while_composing_left_is_among_the_temporary_files_and_removed(
    finished, pets, broken, tmp_path, convert, build, snapshot
):
    out = tmp_path / "out"
    assert convert(f"--input={broken}", f"--output={out}", *FLAGS, "--max_failures=0").code == 3
    (staging,) = filter(Path.is_dir, out.glob(".build/*"))
    program = """\
import os, signal, sys
from beam_tfrecords import storage
with storage.open_write(sys.argv[1], staging=sys.argv[2]) as file:
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    before = sorted(snapshot(out, without=[".build"]))
    for file in ("pets-train.tfrecord-00000-of-00003", "index/pets-train-00000-of-00003.parquet", "manifest.json"):
        subprocess.run([sys.executable, "-c", program, str(out / file), str(staging)], check=False)
    assert len(list(staging.glob("*.tmp-*"))) == 3
    assert sorted({*before, "index/"}) == sorted(snapshot(out, without=[".build"]))
    assert sorted(snapshot(build(out, f"--input={pets}", *FLAGS))) == sorted(snapshot(finished))


# After `_SUCCESS`.


def test_a_published_dataset_whose_temporary_files_stay_is_a_success_and_the_next_build_removes_them(
    pets, tmp_path, convert, build, monkeypatch
):
    out, remove = tmp_path / "out", shutil.rmtree

    def refuse(path, **options):
        if str(path).startswith(f"{out}/.build"):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        remove(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", refuse)
        ran = convert(f"--input={pets}", f"--output={out}", *FLAGS)
    assert ran.code == 0
    (line,) = [line for line in ran.err.splitlines() if "note" in line]
    assert re.match(rf"note: {out}/\.build/[0-9a-f]+ could not be removed: Directory not empty", line)
    assert (out / ".build").exists()
    build(out, f"--input={pets}", *FLAGS, "--seed=1", "--overwrite")
    assert not (out / ".build").exists()
    assert len(shards_of(out)) == 1


# Places.


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """A folder with pictures and a table of them; it is the current folder, and links lead to both."""
    pictures = "cat/{0..1}.png dog/{2..3}.png"
    root = write_tree(tmp_path / "data/photos", pictures).parent
    rows = [f"photos/{'cat' if number < 2 else 'dog'}/{number}.png,{number % 2}\n" for number in range(4)]
    (root / "labels.csv").write_text("path,label\n" + "".join(rows))
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "photos").symlink_to(root / "photos")
    monkeypatch.chdir(root)
    return tmp_path


# Inputs, output, and what is said.
PLACES = [
    ("photos", "photos", "lies inside"),
    ("photos", "photos/out", "lies inside"),
    ("photos/", "photos/cat/../out", "lies inside"),
    ("photos", "../link/photos/out", "lies inside"),
    ("../link/photos", "photos/out", "lies inside"),
    ("../photos", "photos/out/", "lies inside"),
    ("photos/*/*.png", "photos/out", "lies inside"),
    ("../link/photos/**", "photos/cat/out", "lies inside"),
    ("photos/c* photos/dog", "photos/dog/out", "lies inside"),
    ("photos", ".", "holds"),
    ("photos", "..", "holds"),
    ("../photos", "../link", "holds"),
    ("labels.csv", ".", "holds"),
    ("../link/labels.csv", "../data/", "holds"),
    ("photos/*/*.png", "../link", "holds"),
    ("photos/cat/*.png photos/dog/*.png", "photos", "holds"),
    ("photos/{cat,dog}/*.png", "photos", "holds"),
    ("photos/cat", "photos", "holds"),
]


@each("words", [[], ["--versioned"], ["--dry_run"]])
@each("inputs, output, said", PLACES)
def test_an_output_inside_or_around_the_input_is_refused(data, convert, snapshot, inputs, output, said, words):
    before = snapshot(data)
    ran = convert(*(f"--input={one}" for one in inputs.split()), f"--output={output}", *FLAGS, *words)
    ran.refused("overlapping_folders", "output", "input", says=[f"{said} `input="])
    assert snapshot(data) == before


def test_an_output_around_or_inside_of_another_folder_that_is_read_is_refused(data, convert):
    for setting in ("image_root", "mask_root"):
        ran = convert("--input=labels.csv", "--output=../photos", f"--{setting}=../link/photos/cat", *FLAGS)
        ran.refused("overlapping_folders", "output", setting, says=["holds "])
    ran = convert("--input=photos", "--output=../link/out/20260101T000000Z", "--reuse=out", *FLAGS)
    ran.refused("overlapping_folders", "output", "reuse", says=["lies inside "])
    # A version is no input of the next one.
    assert convert("--input=photos", "--output=out", "--versioned", *FLAGS, "--no_report").code == 0
    version = (data / "data/out/LATEST").read_text().strip()
    for name in (f"out/{version}", f"../link/out/{version}/*.tfrecord-*"):
        ran = convert(f"--input={name}", "--output=out", "--versioned", *FLAGS)
        ran.refused("overlapping_folders", "output", "input", says=["holds "])


@pytest.mark.parametrize(
    ("inputs", "output"),
    [("labels.csv", "out"), ("*.csv", "out"), ("photos", "photos-out"), ("photos", "../link/out")],
)
def test_an_output_beside_the_input_is_built(data, build, inputs, output):
    assert (build(Path(output), f"--input={inputs}", *FLAGS, "--no_report") / "_SUCCESS").exists()
