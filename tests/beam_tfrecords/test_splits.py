"""Split expressions, and what a dataset says of itself."""

from __future__ import annotations

import copy
import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import open_dataset
from beam_tfrecords.dataset.split_ranges import find_ranges
from beam_tfrecords.errors import RequestError
from tests.each import each
from tests.refusals import Refusal, refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

SPLITS = {"train": 30, "validation": 7, "test": 5}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos, build):
    """42 photos, in several shards of three splits."""
    flags = ["--image_size=16", "--num_shards=3", "--splits=train=0.6,validation=0.2,test=0.2"]
    return open_dataset(build(tmp_path_factory.mktemp("splits") / "out", f"--input={photos}", *flags))


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


def random_expression(chance: random.Random) -> str:
    def bound() -> str:
        return chance.choice(["", f"{chance.randint(0, 100)}%", str(chance.randint(0, 30)), str(-chance.randint(1, 9))])

    terms = [chance.choice(["train", "val", "validation", "test"]) for _ in range(chance.randint(1, 3))]
    return "+".join(term + chance.choice(["", f"[{bound()}:{bound()}]"]) for term in terms)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(30))
def test_load_and_records_read_the_same(dataset, seed):
    expression = random_expression(random.Random(seed))
    whole = {split: [example["filename"] for example in dataset.records(split)] for split in dataset.splits}
    try:
        expected = [whole[split][number] for split, number in numbers_of(dataset.splits, expression)]
    except RequestError:
        for read in (dataset.records, lambda split: load(dataset.path, split)):
            with refuses("empty_split"):
                read(expression)
        return
    assert [example["filename"] for example in dataset.records(expression)] == expected
    examples = load(dataset.path, expression, decode=False)
    assert len(examples) == len(expected)
    assert [name.decode() for name in examples.map(lambda one: one["filename"]).as_numpy_iterator()] == expected
    readers = min(3, len(expected))
    shares = [load(dataset.path, expression, num_readers=readers, reader_index=number) for number in range(readers)]
    read = [one["filename"].decode() for share in shares for one in share.as_numpy_iterator()]
    assert read == expected[: len(expected) // readers * readers]
    cats = dataset.records(expression).filter(label="cat")
    assert [one["filename"] for one in cats] == [name for name in expected if name.startswith("cat")]


def test_all_of_a_split_are_the_same_records_however_they_are_named(dataset):
    assert len({dataset.records(name).digest for name in ("train", "train[:]", "train[0%:100%]")}) == 1
    assert dataset.records().digest == dataset.records("all").digest
    assert dataset.records("train[:5]").digest == dataset.records("train")[:5].digest


def test_a_dataset_says_what_it_has(dataset):
    assert (dataset.name, dataset.num_records, len(dataset)) == ("photos", 42, 42)
    assert list(dataset) == list(dataset.splits)
    assert list(dataset.features) == ["filename", "image", "label"]
    assert dataset.features["label"].type == "int64"
    assert len(dataset["train[:5]"]) == 5
    for index, name in enumerate(dataset.class_names):
        assert (dataset.int2str(index), dataset.str2int(name)) == (name, index)
    assert pickle.loads(pickle.dumps(dataset)) == copy.deepcopy(dataset) == dataset


def test_a_class_that_there_is_not_is_refused(dataset):
    with pytest.raises(ValueError, match="did you mean 'cat'"):
        dataset.str2int("catt")
    for index in (-1, 7):
        with pytest.raises(ValueError, match="7 classes"):
            dataset.int2str(index)
    for several in ([0, 1], "cat", None):
        with pytest.raises(ValueError, match="is not a class index; expected one number"):
            dataset.int2str(several)
    with pytest.raises(ValueError, match="is not a class; expected one name"):
        dataset.str2int(["cat"])
    with pytest.raises(TypeError, match=r"dataset\['train'\]"):
        dataset[0]
