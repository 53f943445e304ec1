"""`beam-tfrecords demo` writes sample photos, and a first dataset of them."""

from __future__ import annotations

from pathlib import Path

import beam_tfrecords
from beam_tfrecords import open_dataset


def test_a_first_dataset_of_sample_photos_is_built_in_a_new_folder(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    ran = run("demo", "first")
    assert ran.code == 0, ran.err
    dataset = open_dataset("first/dataset")
    assert dataset.splits == {"train": 36, "validation": 6}
    assert dataset.manifest["failure_reasons"] == {"empty": 1, "not_an_image": 1, "truncated": 1}
    assert repr(dataset.features["filename"]) == "Feature(name='filename', field='filename', type='bytes')"
    (command,) = [line[2:] for line in ran.out.splitlines() if line.startswith("$ ")]
    again = run(*command.split()[1:], "--overwrite")
    assert again.code == 0, again.err
    run("demo", "first").refused("output_not_empty")


def test_the_photos_are_in_the_package_and_below_two_megabytes():
    folder = Path(beam_tfrecords.__file__).parent / "beam_pipelines/demo"
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 43
    assert sum(path.stat().st_size for path in files) < 2_000_000
