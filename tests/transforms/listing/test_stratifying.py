"""Stratified splits: exact within each class, the same on every run."""

from __future__ import annotations

from collections import Counter

import pytest

from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_refs, write_listing
from beam_tfrecords.transforms.listing.stratifying import stratify
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image
from beam_tfrecords.transforms.splits import Splits

FRACTIONS = {"train": 0.7, "validation": 0.2, "test": 0.1}


def splits_of(listing: Listing) -> dict[str, str]:
    return {ref.key: ref.split for ref in read_refs(listing)}


@pytest.fixture
def stratified(tmp_path):
    """Lists and stratifies samples of classes, given the number of each."""

    def run(*, order=1, **classes):
        refs = [
            SampleRef(f"{name}/{number}.jpg", one_image(File(f"/{name}/{number}.jpg")), 10, label=name)
            for name, count in classes.items()
            for number in range(count)
        ][::order]
        plan = ListPlan(Splits(fractions=FRACTIONS), seed=3)
        listing = write_listing(refs, str(tmp_path), plan=plan)
        return stratify(listing, str(tmp_path), fractions=FRACTIONS, seed=3)

    return run


def test_the_fractions_hold_within_each_class_to_the_sample(stratified):
    listing = stratified(cat=100, dog=50, rare=10)
    counts = Counter((key.split("/")[0], split) for key, split in splits_of(listing).items())
    assert [counts["cat", split] for split in FRACTIONS] == [70, 20, 10]
    assert [counts["dog", split] for split in FRACTIONS] == [35, 10, 5]
    assert [counts["rare", split] for split in FRACTIONS] == [7, 2, 1]
    assert dict(listing.samples) == {"train": 112, "validation": 32, "test": 16}
    assert listing.labels == {"cat": 100, "dog": 50, "rare": 10}
    assert listing.source_bytes.total() == 1600


def test_the_order_of_the_listing_and_other_classes_change_nothing(stratified):
    one, other = stratified(cat=40, dog=20), stratified(order=-1, cat=40, dog=20, cow=30)
    assert splits_of(one).items() <= splits_of(other).items()


def test_a_small_class_gets_the_nearest_counts(stratified):
    assert set(splits_of(stratified(single=1)).values()) == {"train"}
    assert Counter(splits_of(stratified(few=3)).values()) == {"train": 2, "validation": 1}


def test_a_build_of_real_photos_is_stratified(photos, tmp_path, build):
    from tests.beam_pipelines.dataset_checks import manifest_of

    flags = ["--stratify", "--splits=train=0.5,test=0.5", "--image_size=16"]
    out = build(tmp_path / "out", f"--input={photos}", *flags)
    photos_of = Counter(path.parent.name for path in photos.glob("*/*.jpg"))
    splits = manifest_of(out)["splits"]
    for name, count in photos_of.items():
        assert splits["train"]["classes"][name] in (count // 2, -(-count // 2))
        assert splits["train"]["classes"][name] + splits["test"]["classes"][name] == count


def test_stratify_without_fractions_or_with_groups_is_refused(photos, tmp_path, convert):
    flags = [f"--input={photos}", f"--output={tmp_path / 'out'}", "--stratify"]
    groups = ["--splits=train=0.5,test=0.5", "--label_pattern=(?P<group>x)(?P<label>y)"]
    convert(*flags).refused("needs_setting", "stratify", "splits")
    convert(*flags, *groups).refused("conflicting_settings", "stratify", "label_pattern")
