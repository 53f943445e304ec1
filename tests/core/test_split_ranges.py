"""Split expressions: which records they say, and what is refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.dataset.split_ranges import find_ranges
from beam_tfrecords.errors import RequestError
from tests.each import each
from tests.refusals import Refusal, refuses

SPLITS = {"train": 30, "validation": 7, "test": 5}


def numbers_of(splits, expression) -> list[tuple[str, int]]:
    return [(split, number) for split, begin, end in find_ranges(splits, expression) for number in range(begin, end)]


def everything(splits) -> list[tuple[str, int]]:
    return [(split, number) for split, records in splits.items() for number in range(records)]


@each(
    "expression, expected",
    [
        ("train", everything({"train": 30})),
        ("all", everything(SPLITS)),
        ("val", everything({"validation": 7})),
        ("Training", everything({"train": 30})),
        ("train[:10%]+validation", [*everything({"train": 3}), *everything({"validation": 7})]),
        (" test + train[28:] ", [*everything({"test": 5}), ("train", 28), ("train", 29)]),
        ("train[-2:]", [("train", 28), ("train", 29)]),
        ("train[ 95% : ]", [("train", 28), ("train", 29)]),
        ("train[1_0:12]", [("train", 10), ("train", 11)]),
        ("validation[:50%]", everything({"validation": 4})),
        ("test[:50%]", everything({"test": 2})),
        ("all[35:38]", [("validation", 5), ("validation", 6), ("test", 0)]),
        ("test[1:2]+test[0:1]", [("test", 1), ("test", 0)]),
        ("test[:1]+test[:1]", [("test", 0), ("test", 0)]),
        ("test[3:900]", [("test", 3), ("test", 4)]),
    ],
)
def test_an_expression_says_which_records(expression, expected):
    assert numbers_of(SPLITS, expression) == expected


@given(st.integers(1, 100_000), st.floats(0, 100).map(lambda share: round(share, 3)))
def test_two_parts_at_one_bound_are_the_whole(records, percent):
    splits = {"train": records}
    parts = []
    for expression in (f"train[:{percent}%]", f"train[{percent}%:]"):
        try:
            parts += numbers_of(splits, expression)
        except RequestError:
            continue
    assert parts == everything(splits)


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
        ("test[:0%]", Refusal("empty_split", says=["train 30, validation 7, test 5"])),
        ("test[3:2]", Refusal("empty_split")),
    ],
)
def test_what_is_no_expression_is_refused(expression, refusal):
    with refuses(refusal):
        find_ranges(SPLITS, expression)


def test_a_word_of_two_splits_is_refused():
    assert numbers_of({"train": 1, "dev": 1}, "val") == [("dev", 0)]
    with refuses("unknown_split", says=["'val'"]):
        find_ranges({"valid": 1, "dev": 1}, "val")
