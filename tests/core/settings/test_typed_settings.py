"""`build` as editors and type checkers see it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import beam_tfrecords
from beam_tfrecords import Sample, SampleObjects
from beam_tfrecords.beam_pipelines.settings import build_settings
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS
from beam_tfrecords.beam_pipelines.settings.typed_settings import settings_module
from beam_tfrecords.transforms.mapping.sample import SampleChanges, SampleParts

GOOD = """
import pathlib
from beam_tfrecords import BuildError, Dataset, Records, RequestError, Plan, Sample, build, convert, open_dataset, plan

dataset: Dataset = build(
    input=["a/", pathlib.Path("b/")], output=pathlib.Path("out"), image_size=224, splits={"train": 0.9, "test": 0.1},
    shard_size="150MB", upscale=False, max_failures=0.1, resize_mode="crop", beam_arguments=["--direct_num_workers=2"],
)
same: Dataset = convert("a/", pathlib.Path("out"), image_size=(224, 224), class_names=["cat", "dog"])
planned: Plan = plan(["a/", "b/"], "out", image_size="224x160", beam_arguments=["--direct_num_workers=2"])
told: str = str(planned)
records: Records = dataset["train"]
"""
BAD = ("imagesize=3", "image_size=2.5", "resize_mode='squeeze'", "overwrite='yes'", "seed='0'")
BAD_READING = (
    "build('a', 'b', 64)",
    "build('a', 'b', dry_run=True)",
    "plan('a', 'b').splitlines()",
    "plan('a', 'b', imagesize=3)",
    "load('out', 'train', imagesize=3)",
    "open_dataset('out').records('train', resize_mode='squeeze')",
    "open_dataset('out').num_rows",
    "open_dataset('out')['train'].shuffle()",
)


def test_the_types_are_generated_from_the_settings():
    made = Path(build_settings.__file__).read_text(encoding="utf-8")
    assert made == settings_module(), "python -m beam_tfrecords.beam_pipelines.settings.typed_settings"
    assert list(build_settings.BuildSettings.__annotations__.keys() ^ SETTINGS.keys()) == []
    assert ": Any" not in made


@pytest.mark.nightly
def test_a_type_checker_knows_every_setting(tmp_path):
    lines = [*(f"build(input='a', output='b', {words})" for words in BAD), *BAD_READING]
    calls = "".join(f"beam_tfrecords.{line}\n" for line in lines)
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(f"import beam_tfrecords\n{calls}")
    words = ["-m", "mypy", "--config-file=", f"--cache-dir={tmp_path}", "--follow-imports=silent"]
    found = {}
    for name in ("good", "bad"):
        ran = subprocess.run([sys.executable, *words, tmp_path / f"{name}.py"], capture_output=True, text=True)
        found[name] = [line for line in ran.stdout.splitlines() if f"{name}.py:" in line and ": error: " in line]
    assert found["good"] == []
    assert {line.split(":")[1] for line in found["bad"]} == {str(number) for number in range(2, 2 + len(lines))}


def test_help_names_the_settings_in_groups():
    shown = inspect.getdoc(beam_tfrecords.build)
    assert "Images: image_size, resize_mode," in shown
    assert all(name in shown for name in SETTINGS)


def test_the_types_of_a_sample_say_what_it_holds():
    """No public name of a sample, nor of its changes and objects, is typed as `Any`."""
    functions = [one for name, one in vars(Sample).items() if inspect.isfunction(one) and not name.startswith("_")]
    functions += [one.fget for one in vars(Sample).values() if isinstance(one, property)]
    found = [Sample.__init__.__annotations__, *(one.__annotations__ for one in functions)]
    found += [kind.__annotations__ for kind in (Sample, SampleChanges, SampleParts, SampleObjects)]
    assert len(functions) >= 8
    assert not [text for hints in found for text in hints.values() if "Any" in str(text)]
