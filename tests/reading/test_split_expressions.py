"""Split expressions: which records they say, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import Dataset, RequestError, build
from tests.each import each
from tests.refusals import Refusal, refuses

SPLITS = {"train": 30, "validation": 7, "test": 5}


def make(folder: Path, splits: Mapping[str, int]) -> Dataset:
    """A dataset of rows that are numbered."""
    rows = [f"{number},{split}\n" for split, records in splits.items() for number in range(records)]
    (folder / "rows.csv").write_text("".join(["number,split\n", *rows]))
    layout = {"number": {"field": "column.number", "type": "int64"}}
    return build(folder / "rows.csv", folder / "out", layout=layout, quiet=True, report=False)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    return make(tmp_path_factory.mktemp("splits"), SPLITS)


@pytest.fixture(scope="module")
def records_of(dataset) -> dict[str, list[int]]:
    """The numbers of each split, in the order of its records."""
    return {split: [record["number"] for record in dataset.records(split)] for split in SPLITS}


def read(dataset: Dataset, expression: str) -> list[int]:
    return [record["number"] for record in dataset.records(expression)]


# Split, begin and end of each part.
@each(
    "expression, parts",
    [
        ("train", [("train", 0, 30)]),
        ("all", [("test", 0, 5), ("train", 0, 30), ("validation", 0, 7)]),
        ("val", [("validation", 0, 7)]),
        ("Training", [("train", 0, 30)]),
        ("train[:10%]+validation", [("train", 0, 3), ("validation", 0, 7)]),
        (" test + train[28:] ", [("test", 0, 5), ("train", 28, 30)]),
        ("train[-2:]", [("train", 28, 30)]),
        ("train[ 95% : ]", [("train", 28, 30)]),
        ("train[1_0:12]", [("train", 10, 12)]),
        ("validation[:50%]", [("validation", 0, 4)]),
        ("test[:50%]", [("test", 0, 2)]),
        ("all[33:36]", [("train", 28, 30), ("validation", 0, 1)]),
        ("test[1:2]+test[0:1]", [("test", 1, 2), ("test", 0, 1)]),
        ("test[:1]+test[:1]", [("test", 0, 1), ("test", 0, 1)]),
        ("test[3:900]", [("test", 3, 5)]),
    ],
)
def test_an_expression_says_which_records(dataset, records_of, expression, parts):
    expected = [number for split, begin, end in parts for number in records_of[split][begin:end]]
    assert read(dataset, expression) == expected


@given(st.sampled_from(sorted(SPLITS)), st.floats(0, 100).map(lambda share: round(share, 3)))
def test_two_parts_at_one_bound_are_the_whole(dataset, records_of, split, percent):
    parts = []
    for expression in (f"{split}[:{percent}%]", f"{split}[{percent}%:]"):
        try:
            parts += read(dataset, expression)
        except RequestError:
            continue
    assert parts == records_of[split]


@each(
    "expression, refusal",
    [
        ("", Refusal("invalid_split", says=["''"])),
        ("train+", Refusal("invalid_split", says=["''"])),
        ("train[5]", Refusal("invalid_split", says=["'train[5]'", "'train'"])),
        ("train[:1:2]", Refusal("invalid_split")),
        ("train[:ten]", Refusal("invalid_split", says=["'ten'"])),
        ("train[:120%]", Refusal("invalid_split", says=["'120%'"])),
        ("train[:0.5]", Refusal("invalid_split", says=["'0.5'"])),
        ("trian", Refusal("unknown_split", says=["'trian'", "'train'"])),
        ("train[:5]+tset", Refusal("unknown_split", says=["'tset' in 'train[:5]+tset'", "'test'"])),
        ("test[:0%]", Refusal("empty_split", says=["test 5, train 30, validation 7"])),
        ("test[3:2]", Refusal("empty_split")),
    ],
)
def test_what_is_no_expression_is_refused(dataset, expression, refusal):
    with refuses(refusal):
        dataset.records(expression)


def test_a_word_of_two_splits_is_refused(tmp_path):
    (tmp_path / "one").mkdir()
    assert len(make(tmp_path / "one", {"train": 1, "dev": 2}).records("val")) == 2
    (tmp_path / "two").mkdir()
    with refuses("unknown_split", says=["'val'"]):
        make(tmp_path / "two", {"valid": 1, "dev": 1}).records("val")


def test_a_split_whose_samples_were_rejected_is_empty(tmp_path):
    (tmp_path / "rows.csv").write_text("number,split\n0,train\n1,train\nx,test\n")
    layout = {"number": {"field": "column.number", "type": "int64"}}
    dataset = build(tmp_path / "rows.csv", tmp_path / "out", layout=layout, quiet=True, report=False, max_failures=0.5)
    assert dataset.splits == {"test": 0, "train": 2}
    assert [read(dataset, split) for split in dataset.splits] == [[], [*read(dataset, "train+test")]]
