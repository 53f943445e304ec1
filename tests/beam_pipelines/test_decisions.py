"""Decisions about a whole listing: everyone who reads it sees the same labels and splits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that

from beam_tfrecords import LimitError, ReadSamples, build, plan
from tests.archive_files import pack_folder
from tests.trees import write_tree

INNER = "cat/train/{0,2,4}.png cat/test/{1,3,5}.png dog/train/{0,2}.png dog/test/{1,3}.png fox/{train/0,test/1}.png"
NESTED = "images/cat/{0..19}.png images/dog/{0..9}.png"
ROWS = [f"{split}/{at}.png,{'ab'[at % 2]}" for split in ("train", "val") for at in range(4)]
# Name -> pictures, settings, and split -> class -> number of samples; "" stands for no class.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, dict[str, int]]]] = {
    "splits inside classes": (
        INNER,
        {},
        {"train": {"cat": 3, "dog": 2, "fox": 1}, "test": {"cat": 3, "dog": 2, "fox": 1}},
    ),
    # The request names classes, so that only they are looked for in the folders.
    "some classes": (INNER, {"classes": "cat,fox"}, {one: {"cat": 3, "fox": 1} for one in ("train", "test")}),
    "strata": (
        NESTED,
        {"splits": "train=0.8,test=0.2", "stratify": True},
        {"train": {"cat": 16, "dog": 8}, "test": {"cat": 4, "dog": 2}},
    ),
    "a split without labels": (
        "train/{cat,dog}/{0..2}.png test/{0..1}.png",
        {"label_pattern": "^train/(?P<label>[^/]+)/"},
        {"train": {"cat": 3, "dog": 3}, "test": {"": 2}},
    ),
    "splits in the paths of a table": (
        "{train,val}/{0..3}.png",
        {"input": "labels.csv"},
        {"train": {"a": 2, "b": 2}, "validation": {"a": 2, "b": 2}},
    ),
}


@pytest.fixture(params=sorted(CASES))
def case(request, tmp_path):
    """The settings of a request, and what its splits and classes are."""
    pictures, settings, expected = CASES[request.param]
    files = {"labels.csv": "\n".join(["image,label", *ROWS])} if "input" in settings else {}
    root = write_tree(tmp_path / "in", pictures, files)
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
def test_a_request_that_changes_only_decisions_lists_no_archive_again(tmp_path, change):
    pack_folder(write_tree(tmp_path / "in", NESTED, {"images/cat/broken.png": "broken"}), tmp_path / "in.tar")
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
