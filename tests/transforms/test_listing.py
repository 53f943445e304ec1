"""The listing: splits by rule, chunks, totals, fingerprint."""

from __future__ import annotations

import random

import pytest

from transforms import listing as listing_module
from transforms.listing import assign_split, read_listing, write_listing
from transforms.spec import Splits
from transforms.values import SampleRef


def refs(count: int, **fields) -> list[SampleRef]:
    return [
        SampleRef(f"cat/{number}.jpg", f"/photos/cat/{number}.jpg", size=10, label="cat", **fields)
        for number in range(count)
    ]


def split_of(ref: SampleRef, splits: Splits) -> SampleRef:
    return assign_split(ref, splits=splits, seed=0)


def test_fractions_are_kept_to():
    splits = Splits(fractions={"train": 0.8, "validation": 0.15, "test": 0.05})
    names = [split_of(ref, splits).split for ref in refs(20_000)]
    assert names.count("train") == pytest.approx(16_000, rel=0.02)
    assert names.count("validation") == pytest.approx(3_000, rel=0.05)
    assert names.count("test") == pytest.approx(1_000, rel=0.1)


def test_more_images_move_no_other_to_another_split():
    splits = Splits(fractions={"train": 0.5, "validation": 0.5})
    assert [split_of(ref, splits) for ref in refs(50)] == [split_of(ref, splits) for ref in refs(100)][:50]


@pytest.mark.parametrize(
    ("word", "split"), [(None, "train"), ("val", "validation"), ("test", "test"), ("fold_1", "fold_1")]
)
def test_auto_takes_the_sources_word(word, split):
    assert split_of(SampleRef("a", None, split=word), Splits()).split == split


@pytest.mark.parametrize("word", ["Train set", "all", "täst", "1"])
def test_a_word_that_cannot_name_a_split_is_a_failure(word):
    ref = split_of(SampleRef("a", None, split=word), Splits())
    assert ref.split is None
    assert ref.failure is not None
    assert ref.failure[0] == "unknown_split"
    assert repr(word) in ref.failure[1]


def test_chunks_hold_all_refs_and_the_totals_count_them(tmp_path, monkeypatch):
    monkeypatch.setattr(listing_module, "CHUNK_REFS", 10)
    listing, chunks = write_listing(refs(25), str(tmp_path), splits=Splits(), seed=0)
    assert [len(list(read_listing(chunk))) for chunk in chunks] == [10, 10, 5]
    assert [SampleRef.unpack(packed).key for chunk in chunks for packed in read_listing(chunk)] == [
        ref.key for ref in refs(25)
    ]
    assert listing.samples == {"train": 25}
    assert listing.bytes == {"train": 250}
    assert listing.labels == {"cat": 25}


def test_labels_that_nobody_asks_for_are_not_held(tmp_path):
    listing, _ = write_listing(refs(25), str(tmp_path), splits=Splits(), seed=0, count_labels=False)
    assert (listing.total, listing.labels) == (25, {})


def test_the_fingerprint_ignores_order_and_notices_changes(tmp_path):
    def fingerprint(samples: list[SampleRef]) -> str:
        return write_listing(samples, str(tmp_path), splits=Splits(), seed=0)[0].fingerprint

    samples = refs(20)
    assert fingerprint(random.Random(1).sample(samples, 20)) == fingerprint(samples)
    assert fingerprint(samples[1:]) != fingerprint(samples)
    assert fingerprint([*samples[1:], SampleRef("cat/0.jpg", "/photos/cat/0.jpg", size=11)]) != fingerprint(samples)
