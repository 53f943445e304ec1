"""`convert` as a process: what it prints, what it leaves behind, and the same bytes from any workers."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, EXACT, FLAGS, manifest_of, shards_of
from tests.refusals import refuses


@pytest.fixture(scope="module")
def process(pets, tmp_path_factory) -> tuple[subprocess.CompletedProcess, Path, Path]:
    """The pets converted by a process with one worker; the process, its output and its temporary folder."""
    temporary = tmp_path_factory.mktemp("temporary")
    output = pets.parent / "process"
    # Workers must not import a user's own module in place of ours.
    here = tmp_path_factory.mktemp("here")
    (here / "transforms.py").write_text("raise ImportError('the wrong transforms')")
    words = [f"--input={pets}", f"--output={output}", *FLAGS, *EXACT, "--direct_num_workers=1"]
    ran = subprocess.run(
        [BEAM_TFRECORDS, "convert", *words],
        capture_output=True,
        text=True,
        cwd=here,
        env={**os.environ, "TMPDIR": str(temporary)},
        check=False,
    )
    return ran, output, temporary


def test_the_summary_counts_splits_classes_and_skipped_files(process):
    ran, output, _ = process
    assert ran.returncode == 0, ran.stderr
    for words in (
        "train",
        "validation",
        "classes of train: cat ",
        "Äpfel & Birnen ",
        "hidden",
        "Thumbs.db",
        "120 samples",
        "/s",
    ):
        assert words in ran.stdout
    assert str(output) in ran.stdout
    assert len(ran.stdout.splitlines()) < 15


def test_a_short_build_prints_nothing_on_standard_error(process):
    ran, _, _ = process
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_local_run_leaves_nothing_in_the_temporary_folder(process, snapshot):
    ran, _, temporary = process
    assert (ran.returncode, snapshot(temporary)) == (0, {"./": b""})


BEAM_MODES = ["in_memory", "multi_threading", "multi_processing"]


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(None, id="our workers"),
        *(pytest.param(mode, id=mode, marks=pytest.mark.nightly) for mode in BEAM_MODES),
    ],
)
def test_shards_and_indices_are_the_same_from_any_workers(process, out, pets, run, mode):
    ran, one_worker, _ = process
    assert ran.returncode == 0, ran.stderr
    two_workers = pets.parent / f"two_{mode}"
    flags = [f"--input={pets}", f"--output={two_workers}", *FLAGS, *EXACT]
    workers = ["--direct_num_workers=2", *([f"--direct_running_mode={mode}"] if mode else [])]
    ran = run("convert", *flags, "--runner=DirectRunner", *workers)
    assert ran.code == 0, ran.err
    for other in (one_worker, two_workers):
        assert shards_of(other) == shards_of(out)
        assert manifest_of(other)["shards"] == manifest_of(out)["shards"]
        assert manifest_of(other)["input_fingerprint"] == manifest_of(out)["input_fingerprint"]


def test_the_module_is_the_same_program(tmp_path):
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "beam_tfrecords.beam_pipelines.convert",
            f"--input={tmp_path}/nowhere",
            f"--output={tmp_path}/out",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "nowhere" in ran.stderr


@pytest.mark.parametrize(
    "command", [[], ["convert"], ["verify"], ["inspect"]], ids=["all", "convert", "verify", "inspect"]
)
def test_help_is_short_and_quick(command):
    # CPU time, because other tests may keep the machine busy.
    start = os.times()
    ran = subprocess.run([BEAM_TFRECORDS, *command, "--help"], capture_output=True, text=True, check=False)
    end = os.times()
    assert end.children_user + end.children_system - start.children_user - start.children_system < 1
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) < 280
    assert "usage: beam-tfrecords" in ran.stdout


def test_a_flag_beats_the_spec(pets, tmp_path, build):
    (tmp_path / "spec.yaml").write_text(f"input: {pets}\nimage_size: 8\nseed: 7\nname: spec\n")
    spec = manifest_of(build(tmp_path / "out", f"--spec={tmp_path / 'spec.yaml'}", "--image_size=16"))["spec"]
    assert (spec["image_size"], spec["seed"], spec["name"]) == ("16x16", 7, "spec")


TOML = """
input = "photos"
output = "out"
image_size = [16, 24]
[splits]
train = 0.75
test = 0.25
"""


def test_a_spec_file_may_be_toml_and_standard_input_yaml(tmp_path, monkeypatch):
    (tmp_path / "spec.toml").write_text(TOML)
    expected = {"input": "photos", "output": "out", "image_size": [16, 24], "splits": {"train": 0.75, "test": 0.25}}
    assert parse_arguments([f"--spec={tmp_path / 'spec.toml'}"]).raw_values == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(expected).encode())))
    given = parse_arguments(["--spec=-", "--image_size=8"]).raw_values
    assert given == {**expected, "image_size": "8"}


def test_a_broken_toml_file_is_refused(tmp_path):
    (tmp_path / "spec.toml").write_text("input = photos")
    with refuses("invalid_spec", "spec", says=["not valid TOML", "line 1"]):
        parse_arguments([f"--spec={tmp_path / 'spec.toml'}"])
