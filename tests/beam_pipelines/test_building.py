"""`beam_tfrecords.build`: a build from Python, and the public names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import beam_tfrecords
from beam_tfrecords.errors import BuildError
from tests.beam_pipelines.dataset_checks import shards_of

ROOT = Path(__file__).parents[2]
SETTINGS = {"image_size": 16, "splits": {"train": 0.5, "test": 0.5}, "class_names": ["cat", "dog", "Äpfel & Birnen"]}


@pytest.fixture(scope="module")
def pets(tmp_path_factory, picture, save) -> Path:
    root = tmp_path_factory.mktemp("building") / "pets"
    for number in range(6):
        save(root / ("cat", "dog")[number % 2] / f"{number}.png", picture(number, 20, 24))
    return root


def test_settings_have_the_names_of_the_flags_and_the_values_of_a_spec_file(pets, tmp_path, build, beam_workers):
    dataset = beam_tfrecords.build(input=pets, output=tmp_path / "out", **SETTINGS, beam_arguments=beam_workers)
    assert dataset.path == str(tmp_path / "out")
    flags = ["--image_size=16", "--splits=train=0.5,test=0.5", "--class_names=cat,dog,Äpfel & Birnen"]
    expected = build(tmp_path / "expected", f"--input={pets}", *flags)
    assert shards_of(tmp_path / "out") == shards_of(expected)
    assert beam_tfrecords.open_dataset(str(expected)).shards == dataset.shards


def test_a_build_that_publishes_nothing_raises_an_error_that_names_the_list(pets, tmp_path, beam_workers):
    (pets / "cat/broken.png").write_bytes(b"not an image")
    try:
        with pytest.raises(BuildError, match="nothing was published: 1 of 7 samples failed"):
            beam_tfrecords.build(input=pets, output=tmp_path / "out", max_failures=0, beam_arguments=beam_workers)
    finally:
        (pets / "cat/broken.png").unlink()


@pytest.mark.parametrize("fails", [False, True], ids=["done", "failed"])
def test_a_script_without_a_main_guard_runs_a_build_and_ends(pets, tmp_path, fails):
    request = f"input={str(pets)!r}, output={str(tmp_path / 'out')!r}, image_size=16"
    script = tmp_path / "script.py"
    script.write_text(f"from beam_tfrecords import build\nprint('once', flush=True)\nbuild({request})\n")
    if fails:
        # A file in place of a folder: composing raises in the workers, which nobody may wait for.
        (tmp_path / "out").mkdir()
        (tmp_path / "out/index").write_text("")
    ran = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ran.returncode, ran.stdout) == (int(fails), "once\n"), ran.stderr
    assert (tmp_path / "out/_SUCCESS").exists() is not fails


def test_every_public_name_can_be_imported():
    errors = {"BuildError", "LimitError", "OutputLockedError", "RequestError"}
    transforms = {"ConvertSamples", "ReadSamples", "WriteDataset", "WriteTFRecordShards"}
    kinds = {"Dataset", "Plan", "Records", "Sample", "Shard"} | transforms
    functions = {"build", "convert", "load", "mix", "open_dataset", "plan", "verify"}
    assert set(beam_tfrecords.__all__) == functions | kinds | errors
    for name in beam_tfrecords.__all__:
        assert callable(getattr(beam_tfrecords, name))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        beam_tfrecords.nothing  # noqa: B018
