"""What is in the output folder before, during and after a build, and whose it is."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections import Counter

import pytest

from beam_tfrecords.beam_pipelines.build import build as build_module
from beam_tfrecords.beam_pipelines.build.checks import output
from beam_tfrecords.beam_pipelines.build.listing import source_opening
from beam_tfrecords.beam_pipelines.build.output import lock
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of

FLAGS = ["--name=pets", "--image_size=8"]


@pytest.fixture(scope="module")
def pets(tmp_path_factory, picture, save):
    root = tmp_path_factory.mktemp("folder") / "pets"
    for number in range(8):
        save(root / ("cat", "dog")[number % 2] / f"{number}.png", picture(number, 20, 30))
    return root


@pytest.fixture(scope="module")
def finished(pets, build):
    """A dataset of the pets; read only."""
    return build(pets.parent / "finished", f"--input={pets}", *FLAGS)


# Foreign files


@pytest.mark.parametrize("flags", [[], ["--overwrite"]])
@pytest.mark.parametrize(
    "name",
    [
        "pets-train.tfrecord-00000-of-00099",
        "theirs.tfrecord",
        "index/theirs.parquet",
        "manifest.json",
        "dataset_info.json",
        "breed.labels.txt",
    ],
)
def test_files_with_names_like_ours_are_not_mixed_with_a_new_dataset(pets, tmp_path, convert, snapshot, name, flags):
    out = tmp_path / "out [1]"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("theirs")
    before = snapshot(tmp_path)
    ran = convert(f"--input={pets}", f"--output={out}", *FLAGS, *flags)
    ran.refused("output_not_empty", "output", says=[f"output={out}", name])
    assert snapshot(tmp_path) == before


def test_a_success_marker_of_another_program_is_not_overwritten(pets, tmp_path, convert, snapshot):
    for name in ("_SUCCESS", "part-00000.tfrecord"):  # as Spark writes them
        (tmp_path / name).touch()
    ran = convert(f"--input={pets}", f"--output={tmp_path}", *FLAGS, "--overwrite")
    ran.refused("output_not_empty", "output", says=["_SUCCESS, part-00000.tfrecord; "])
    assert sorted(snapshot(tmp_path)) == ["./", "_SUCCESS", "part-00000.tfrecord"]


def test_a_foreign_shard_beside_a_dataset_of_ours_is_not_taken_into_the_new_one(finished, pets, tmp_path, convert):
    out = shutil.copytree(finished, tmp_path / "out")
    (out / "pets-train.tfrecord-00007-of-00008").write_text("theirs")
    ran = convert(f"--input={pets}", f"--output={out}", *FLAGS, "--overwrite")
    ran.refused("output_not_empty", "output", says=["pets-train.tfrecord-00007-of-00008; "])


# Two builds


def test_a_build_that_has_not_listed_anything_keeps_others_away_and_looks_once(pets, tmp_path, convert, monkeypatch):
    calls: Counter[str] = Counter()
    refused = []

    def watch(module, name: str) -> None:
        function = getattr(module, name)

        def count(*arguments, **options):
            calls[name] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, count)

    watch(lock, "check_output")
    watch(output, "find_replaced_files")
    watch(source_opening, "open_input")
    open_source = build_module.open_spec_source

    def open_while_another_build_begins(spec):
        with monkeypatch.context() as patch:
            patch.setattr(build_module, "open_spec_source", open_source)
            refused.append(convert(f"--input={pets}", f"--output={spec.output}", *FLAGS))
        assert calls == {"check_output": 1, "find_replaced_files": 1}
        return open_source(spec)

    monkeypatch.setattr(build_module, "open_spec_source", open_while_another_build_begins)
    ran = convert(f"--input={pets}", f"--output={tmp_path / 'out'}", *FLAGS, "--layout=tfds")
    assert ran.code == 0, ran.err
    assert calls == {"check_output": 1, "find_replaced_files": 1, "open_input": 1}
    (ran,) = refused
    assert ran.code == 4
    assert f"another build is writing to it, process {os.getpid()} on " in ran.err


@pytest.mark.parametrize("was_there", [True, False])
def test_a_refused_request_leaves_the_output_as_it_was(tmp_path, convert, was_there):
    out = tmp_path / "out"
    if was_there:
        out.mkdir()
    assert convert("--input=/not/there", f"--output={out}").code == 2
    assert out.exists() == was_there
    assert not was_there or list(out.iterdir()) == []


# After `_SUCCESS`


def test_a_pipeline_that_a_runner_starts_again_after_it_has_published_publishes_the_same(
    finished, pets, tmp_path, build, snapshot, monkeypatch
):
    run = build_module._run

    def run_twice(*arguments, **options):
        assert isinstance(run(*arguments, **options), build_module.Published)
        return run(*arguments, **options)

    monkeypatch.setattr(build_module, "_run", run_twice)
    again = build(tmp_path / "out", f"--input={pets}", *FLAGS)
    different = ["manifest.json", "_SUCCESS"]
    assert snapshot(again, without=different) == snapshot(finished, without=different)


def test_a_published_dataset_whose_temporary_files_stay_is_a_success_and_the_next_build_removes_them(
    pets, tmp_path, convert, build, monkeypatch
):
    out = tmp_path / "out"

    remove = shutil.rmtree

    def refuse(path, **options):
        if path.startswith(str(out / ".build")):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        remove(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr("beam_tfrecords.storage.local.shutil.rmtree", refuse)
        ran = convert(f"--input={pets}", f"--output={out}", *FLAGS)
    assert ran.code == 0
    (line,) = [line for line in ran.err.splitlines() if "note" in line]
    assert re.match(rf"note: {out}/\.build/[0-9a-f]+ could not be removed: Directory not empty", line)
    assert (out / ".build").exists()
    records = manifest_of(out)["records"]
    assert records == 8
    build(out, f"--input={pets}", *FLAGS, "--seed=1", "--overwrite")
    assert not (out / ".build").exists()
    assert len(shards_of(out)) == 1
