"""The rule that gives every sample its split."""

from __future__ import annotations

import pytest

from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image
from beam_tfrecords.transforms.splits import Splits, assign_splits, read_splits, write_splits


def refs(count: int) -> list[SampleRef]:
    return [SampleRef(f"cat/{number}.jpg", one_image(File(f"/photos/cat/{number}.jpg"))) for number in range(count)]


def split_of(ref: SampleRef, splits: Splits) -> SampleRef:
    (together,) = RefColumns.of([ref])
    return assign_splits(together, splits=splits, seed=0)[0]


def test_splits_have_their_fractions():
    splits = Splits(fractions={"train": 0.8, "validation": 0.15, "test": 0.05})
    names = [split_of(ref, splits).split for ref in refs(20_000)]
    assert names.count("train") == pytest.approx(16_000, rel=0.02)
    assert names.count("validation") == pytest.approx(3_000, rel=0.05)
    assert names.count("test") == pytest.approx(1_000, rel=0.1)


def test_adding_images_moves_no_other_to_another_split():
    splits = Splits(fractions={"train": 0.5, "validation": 0.5})
    assert [split_of(ref, splits) for ref in refs(50)] == [split_of(ref, splits) for ref in refs(100)][:50]


@pytest.mark.parametrize(
    ("word", "split"), [(None, "train"), ("val", "validation"), ("test", "test"), ("fold_1", "fold_1")]
)
def test_auto_takes_the_word_of_the_source(word, split):
    assert split_of(SampleRef("a", {}, split=word), Splits()).split == split


@pytest.mark.parametrize("word", ["Train set", "all", "täst", "1"])
def test_a_word_that_cannot_name_a_split_is_a_failure(word):
    ref = split_of(SampleRef("a", {}, split=word), Splits())
    assert ref.split is None
    assert ref.failure is not None
    assert ref.failure[0] == "unknown_split"
    assert repr(word) in ref.failure[1]


@pytest.mark.parametrize(
    ("word", "splits"),
    [
        ("auto", Splits()),
        ("train=0.9,test=0.1", Splits(fractions={"train": 0.9, "test": 0.1})),
        ({"train": 0.9, "test": 0.1}, Splits(fractions={"train": 0.9, "test": 0.1})),
        ("train=a,test=b", Splits(folders={"a": "train", "b": "test"})),
    ],
)
def test_splits_are_read_from_words_and_written_back(word, splits):
    assert read_splits(word) == splits
    assert read_splits(write_splits(splits)) == splits


@pytest.mark.parametrize(
    ("word", "fractions"),
    [
        ("train=80%,val=20%", {"train": 0.8, "validation": 0.2}),
        ("train=4/5,validation=1/5", {"train": 0.8, "validation": 0.2}),
        ("a=0.7,b=0.2,c=0.1", {"a": 0.7, "b": 0.2, "c": 0.1}),  # which floats cannot add up exactly
        ("test=1", {"test": 1}),
    ],
)
def test_fractions_may_be_percentages_and_ratios_and_val_means_validation(word, fractions):
    assert read_splits(word).fractions == fractions


@pytest.mark.parametrize(
    ("word", "folders"),
    [
        ("validation=0,test=1", {"0": "validation", "1": "test"}),
        ("test=3", {"3": "test"}),
        ("train=1,val=2", {"1": "train", "2": "validation"}),
    ],
)
def test_whole_numbers_are_folds(word, folders):
    assert read_splits(word).folders == folders


@pytest.mark.parametrize("word", ["train=0.8,val=0.1,validation=0.1", "train=80%,val=30%"])
def test_fractions_that_contradict_each_other_are_refused(word):
    with pytest.raises(ValueError, match=r"expected|more than once"):
        read_splits(word)
