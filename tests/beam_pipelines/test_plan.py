"""`plan` and `build` from Python: settings, refusals, scripts and the public names."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import beam_tfrecords
from beam_tfrecords import BuildError, Plan, RequestError, build, open_dataset, plan
from tests.refusals import refuses


@pytest.fixture
def folder(tmp_path, photos, monkeypatch):
    """The current folder, with 12 photos of two classes, and a file that is no photo."""
    monkeypatch.chdir(tmp_path)
    for name in ("cat", "space"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for path in sorted((photos / name).glob("*"))[:6]:
            shutil.copy(path, tmp_path / "photos" / name)
    (tmp_path / "photos" / "notes.txt").write_text("no image")
    return tmp_path


def test_a_plan_says_what_the_build_makes(folder):
    settings = {"image_size": 16, "splits": {"train": 0.5, "test": 0.5}, "resample": "box", "jpeg_quality": 80}
    planned = plan("photos", "out", image_encoding="png", **settings)
    assert isinstance(planned, Plan)
    assert not (folder / "out").exists()
    built = build("photos", "out", image_encoding="png", quiet=True, **settings)
    assert planned.output == built.path
    assert (planned.num_samples, planned.splits) == (len(built), built.splits)
    assert {split: counts for split, counts in planned.class_counts.items() if counts} == built.class_counts
    assert planned.class_names == built.class_names
    assert planned.layout == built.layout.to_json()
    assert {split: one.shards for split, one in planned.estimates.items()} == dict.fromkeys(planned.splits, 1)
    assert all(one.bytes > 0 for one in planned.estimates.values())
    assert planned.skipped == {kind: one["files"] for kind, one in built.manifest["skipped"].items()} == {".txt": 1}
    assert [note for note in planned.notes if note.startswith("`jpeg_quality=80`")]
    assert (planned.failures, planned.publishes) == ({}, True)
    again = build("photos", "again", image_encoding="png", layout=planned.layout, quiet=True, **settings)
    assert [shard.crc32c for shard in again.shards] == [shard.crc32c for shard in built.shards]


def test_the_text_of_a_plan_is_that_of_a_dry_run(folder, convert):
    planned = plan(input="photos", output="out", image_size=16)
    assert convert("--input=photos", "--output=out", "--image_size=16", "--dry_run").out == f"{planned}\n"
    assert str(planned) == repr(planned)
    shown = planned._repr_html_()
    assert "<tr><td>train</td><td>12</td>" in shown
    assert str(planned).splitlines()[-1] in shown
    with pytest.raises(dataclasses.FrozenInstanceError):
        planned.output = "other"


def test_a_plan_counts_what_would_be_rejected(folder):
    paths = sorted(path.relative_to(folder) for path in folder.glob("photos/*/*"))
    rows = [f"{path},{path.parent.name if number else ''}" for number, path in enumerate(paths)]
    (folder / "rows.csv").write_text("\n".join(["image,label", *rows]))
    planned = plan("rows.csv", "out")
    assert planned.failures == {"label_missing": 1}
    assert not planned.publishes
    assert plan("rows.csv", "out", max_failures=0.5).publishes


def test_a_plan_of_a_hostile_name_is_text(folder):
    (folder / "photos" / "cat").rename(folder / "photos" / "<b>\x1b[1m")
    planned = plan("photos", "out")
    assert "\x1b" not in str(planned)
    assert "<b>" not in planned._repr_html_()


@pytest.mark.parametrize("ask", [build, plan])
def test_the_input_and_the_output_have_positions(folder, ask):
    with pytest.raises(TypeError, match="`input` is given twice: as 'photos', and by its name as 'others'"):
        ask("photos", input="others")
    with pytest.raises(TypeError, match="positional"):
        ask("photos", "out", 64)
    with refuses("missing_setting", "output"):
        ask("photos")
    with refuses("unknown_setting", "image_sise", "image_size"):
        ask("photos", "out", image_sise=3)
    for given in ({}, {"input": ["photos", ""]}):
        with refuses("missing_setting", "input"):
            ask(output="out", **given)


@pytest.mark.parametrize("ask", [build, plan])
def test_each_suggestion_is_a_request(folder, ask):
    paths = sorted(path.relative_to(folder) for path in folder.glob("photos/*/*"))
    rows = [f"{path},{path.parent.name},{('home', 'out')[number % 2]}" for number, path in enumerate(paths)]
    (folder / "rows.csv").write_text("\n".join(["image,kind,place", *rows]))
    request = {"input": "rows.csv", "output": "out"}
    with pytest.raises(RequestError) as caught:
        ask(**request)
    assert {one.settings.get("label_column") for one in caught.value.suggestions} == {"kind", None}
    for number, reading in enumerate(caught.value.suggestions):
        assert reading.meaning
        assert plan(**{**request, **reading.settings}).num_samples == 12
        assert len(build(**{**request, "output": f"out{number}", "quiet": True, **reading.settings})) == 12


def test_settings_have_the_names_of_the_flags_and_the_values_of_a_spec_file(folder, convert):
    settings = {
        "image_size": 16,
        "splits": {"train": 0.5, "test": 0.5},
        "class_names": ["cat", "space", "Äpfel & Birnen"],
        "shard_size": "1.5 KiB",
    }
    dataset = build(input=folder / "photos", output=folder / "out", **settings)
    assert dataset.path == str(folder / "out")
    flags = ["--image_size=16", "--splits=train=0.5,test=0.5", "--class_names=cat,space,Äpfel & Birnen"]
    assert convert("--input=photos", "--output=expected", "--shard_size=1536B", *flags).code == 0
    assert dataset.manifest["spec"]["shard_size"] == 1536
    assert open_dataset("expected").shards == dataset.shards
    (folder / "photos/cat/broken.png").write_bytes(b"not an image")
    with pytest.raises(BuildError, match="nothing was published: 1 of 13 samples failed"):
        build(input="photos", output="more", max_failures=0, quiet=True)


@pytest.mark.parametrize("fails", [False, True], ids=["done", "failed"])
def test_a_script_without_a_main_guard_runs_a_build_and_ends(folder, fails):
    request = "input='photos', output='out', image_size=16"
    Path("script.py").write_text(f"from beam_tfrecords import build\nprint('once', flush=True)\nbuild({request})\n")
    if fails:
        # A file in place of a folder: composing raises in the workers, which nobody may wait for.
        Path("out").mkdir()
        Path("out/index").write_text("")
    words, variables = [sys.executable, "script.py"], {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(words, env=variables, capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stdout) == (int(fails), "once\n"), ran.stderr
    assert Path("out/_SUCCESS").exists() is not fails


def test_dir_shows_what_is_public():
    errors = {"BuildError", "LimitError", "OutputLockedError", "RequestError"}
    transforms = {"ConvertSamples", "ReadSamples", "WriteDataset", "WriteTFRecordShards"}
    kinds = {"Dataset", "Plan", "Records", "Sample", "SampleObjects", "Shard"} | transforms
    functions = {"build", "convert", "load", "mix", "open_dataset", "plan", "verify"}
    assert {*beam_tfrecords.__all__} == functions | kinds | errors
    assert {*dir(beam_tfrecords)} == {*beam_tfrecords.__all__, "__version__"}
    assert all(callable(getattr(beam_tfrecords, name)) for name in beam_tfrecords.__all__)
    assert beam_tfrecords.__version__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        beam_tfrecords.nothing  # noqa: B018
