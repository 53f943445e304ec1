"""Split expressions, and what a dataset says of itself."""

from __future__ import annotations

import copy
import pickle
import random
import re
from collections.abc import Mapping

import pytest

from beam_tfrecords import open_dataset
from tests.refusals import refuses
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos, build):
    """42 photos, in several shards of three splits."""
    flags = ["--image_size=16", "--num_shards=3", "--splits=train=0.6,validation=0.2,test=0.2"]
    return open_dataset(build(tmp_path_factory.mktemp("splits") / "out", f"--input={photos}", *flags))


def random_expression(chance: random.Random) -> str:
    def bound() -> str:
        return chance.choice(["", f"{chance.randint(0, 100)}%", str(chance.randint(0, 30)), str(-chance.randint(1, 9))])

    terms = [chance.choice(["train", "val", "validation", "test"]) for _ in range(chance.randint(1, 3))]
    return "+".join(term + chance.choice(["", f"[{bound()}:{bound()}]"]) for term in terms)


def names_of(whole: Mapping[str, list[str]], expression: str) -> list[str]:
    """The names of the records of an expression, given those of the splits."""
    found = []
    for term in expression.split("+"):
        split, begin, end = re.fullmatch(r"(\w+)(?:\[(.*):(.*)\])?", term).groups()
        names = whole["validation" if split == "val" else split]
        ends = [
            round(len(names) * int(one[:-1]) / 100) if one.endswith("%") else int(one) if one else None
            for one in (begin or "", end or "")
        ]
        found += names[slice(*ends)]
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(30))
def test_load_and_records_read_the_same(dataset, seed):
    expression = random_expression(random.Random(seed))
    whole = {split: [example["filename"] for example in dataset.records(split)] for split in dataset.splits}
    expected = names_of(whole, expression)
    if not expected:
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
