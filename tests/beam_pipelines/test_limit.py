"""`--limit`: a dataset of a few samples, chosen alike every time and from every split."""

from __future__ import annotations

import tarfile

from tests.beam_pipelines.dataset_checks import manifest_of, splits_of

FLAGS = ["--image_size=8", "--splits=train=0.7,validation=0.2,test=0.1"]


def test_a_limited_build_has_that_many_records_from_every_split(photos, tmp_path, build):
    splits = splits_of(build(tmp_path / "out", f"--input={photos}", "--limit=10", *FLAGS))
    assert len(splits) == 10
    counts = {split: list(splits.values()).count(split) for split in ("train", "validation", "test")}
    assert min(counts.values()) >= 1
    assert counts["train"] >= 5


def test_the_same_samples_are_chosen_every_time_and_keep_split_and_class_index(photos, tmp_path, build):
    whole = build(tmp_path / "whole", f"--input={photos}", *FLAGS)
    one, two = (build(tmp_path / name, f"--input={photos}", "--limit=5", *FLAGS) for name in ("one", "two"))
    assert splits_of(one) == splits_of(two)
    assert splits_of(one).items() <= splits_of(whole).items()
    assert manifest_of(one)["class_names"] == manifest_of(whole)["class_names"]


def test_a_larger_limit_keeps_the_samples_of_a_smaller_one(photos, tmp_path, build):
    few, more = (build(tmp_path / f"{limit}", f"--input={photos}", f"--limit={limit}", *FLAGS) for limit in (6, 20))
    assert splits_of(few).items() <= splits_of(more).items()


def test_another_seed_chooses_other_samples(photos, tmp_path, build):
    chosen = [
        splits_of(build(tmp_path / f"{seed}", f"--input={photos}", "--limit=10", "--image_size=8", f"--seed={seed}"))
        for seed in (1, 2)
    ]
    assert chosen[0] != chosen[1]


def test_a_limit_above_the_number_of_samples_takes_all(photos, tmp_path, build):
    assert manifest_of(build(tmp_path / "out", f"--input={photos}", "--limit=100", *FLAGS))["records"] == 42


def test_an_archive_can_be_limited_and_the_limit_is_in_the_manifest(photos, tmp_path, build):
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        archive.add(photos, ".")
    manifest = manifest_of(build(tmp_path / "out", f"--input={tmp_path / 'photos.tar'}", "--limit=7", *FLAGS))
    assert (manifest["records"], manifest["spec"]["limit"]) == (7, 7)
    assert len(manifest["class_names"]) == 7
