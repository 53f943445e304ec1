"""Decisions about a whole listing: everyone who reads it sees the same labels and splits."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that

from beam_tfrecords import LimitError, ReadSamples, build, plan

Save = Callable[..., Any]


def write_inner_splits(root: Path, save: Save, picture: Any) -> None:
    """Writes folders of classes with folders of splits in them."""
    for label, number in (("cat", 6), ("dog", 4), ("fox", 2)):
        for at in range(number):
            save(root / label / ("test" if at % 2 else "train") / f"{at}.png", picture(at, 8, 8))


def write_nested(root: Path, save: Save, picture: Any) -> None:
    """Writes folders of classes in a folder of images."""
    for label, number in (("cat", 20), ("dog", 10)):
        for at in range(number):
            save(root / "images" / label / f"{at}.png", picture(at, 8, 8))


def write_unlabelled(root: Path, save: Save, picture: Any) -> None:
    """Writes folders of classes, and a test split without."""
    for label in ("cat", "dog"):
        for at in range(3):
            save(root / "train" / label / f"{at}.png", picture(at, 8, 8))
    for at in range(2):
        save(root / "test" / f"{at}.png", picture(at, 8, 8))


def write_table(root: Path, save: Save, picture: Any) -> None:
    """Writes a table of images in folders of splits."""
    rows = [(f"{split}/{at}.png", "ab"[at % 2]) for split in ("train", "val") for at in range(4)]
    for path, _ in rows:
        save(root / path, picture(1, 8, 8))
    (root / "labels.csv").write_text("\n".join(["image,label", *map(",".join, rows)]))


# Name -> what makes the input, its settings, and split -> class -> number of samples; "" stands for no class.
CASES: dict[str, tuple[Callable[..., None], dict[str, Any], dict[str, dict[str, int]]]] = {
    "splits inside classes": (
        write_inner_splits,
        {},
        {"train": {"cat": 3, "dog": 2, "fox": 1}, "test": {"cat": 3, "dog": 2, "fox": 1}},
    ),
    "some classes": (
        write_inner_splits,
        {"classes": "cat,fox"},
        # The request names classes, so that only they are looked for in the folders.
        {"train": {"cat": 6, "fox": 2}},
    ),
    "strata": (
        write_nested,
        {"splits": "train=0.8,test=0.2", "stratify": True},
        {"train": {"cat": 16, "dog": 8}, "test": {"cat": 4, "dog": 2}},
    ),
    "a split without labels": (
        write_unlabelled,
        {"label_pattern": "^train/(?P<label>[^/]+)/"},
        {"train": {"cat": 3, "dog": 3}, "test": {"": 2}},
    ),
    "splits in the paths of a table": (
        write_table,
        {"input": "labels.csv"},
        {"train": {"a": 2, "b": 2}, "validation": {"a": 2, "b": 2}},
    ),
}


@pytest.fixture(params=sorted(CASES))
def case(request, tmp_path, save, picture):
    """The settings of a request, and what its splits and classes are."""
    write, settings, expected = CASES[request.param]
    root = tmp_path / "in"
    write(root, save, picture)
    return {**settings, "input": str(root / settings.get("input", ""))}, expected


def test_a_build_and_its_plan_have_them(case, tmp_path):
    settings, expected = case
    planned = plan(output=str(tmp_path / "out"), image_size=8, **settings)
    assert planned.splits == {split: sum(counts.values()) for split, counts in expected.items()}
    found = {split: {name: one for name, one in counts.items() if name} for split, counts in expected.items()}
    assert planned.class_counts == found
    dataset = build(output=str(tmp_path / "out"), image_size=8, quiet=True, report=False, **settings)
    for split, counts in expected.items():
        names = [*dataset.class_names, ""]
        assert Counter(names[one["label"]] for one in dataset.records(split)) == counts


@pytest.mark.parametrize(
    "change",
    [{"splits": "train=0.5,test=0.5"}, {"class_names": "dog,cat"}, {"limit": 25}, {"classes": "cat"}, {"seed": 7}],
    ids=lambda change: next(iter(change)),
)
def test_a_request_that_changes_only_decisions_lists_no_archive_again(tmp_path, save, picture, change):
    write_nested(tmp_path / "in", save, picture)
    (tmp_path / "in/images/cat/broken.png").write_bytes(b"no image")
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        archive.add(tmp_path / "in/images", "images")
    settings = {"input": str(tmp_path / "in.tar"), "image_size": 8, "quiet": True, "report": False, "name": "data"}
    out = tmp_path / "out"

    def listed() -> dict[str, int]:
        return {path.name: path.stat().st_ctime_ns for path in out.glob(".build/listing-*/[cl]*/*")}

    with pytest.raises(LimitError):  # Nothing is published, and what is done stays.
        build(output=str(out), **{"splits": "train=0.8,test=0.2", **settings, "max_failures": 0})
    before = listed()
    assert before
    expected = build(output=str(tmp_path / "expected"), **settings | {"max_failures": 0.5} | change)
    if "limit" not in change:
        with pytest.raises(LimitError):
            build(output=str(out), **settings | {"max_failures": 0} | change)
        assert {name: listed()[name] for name in before} == before
    again = build(output=str(out), **settings | {"max_failures": 0.5} | change)
    assert again.splits == expected.splits
    for split in expected.splits:
        assert [*again.records(split, form="bytes")] == [*expected.records(split, form="bytes")]


def test_samples_of_a_pipeline_have_them(case):
    settings, expected = case
    found: list[tuple[str, str]] = []

    def check(samples):
        unlabelled = [(sample.split, str(sample.label or "")) for sample in samples]
        found.extend(unlabelled)
        assert Counter(unlabelled) == Counter(
            {(split, name): count for split, counts in expected.items() for name, count in counts.items()}
        )

    with beam.Pipeline() as root:
        samples = root | ReadSamples(**settings)
        assert_that(samples | beam.Map(lambda one: one), check)
