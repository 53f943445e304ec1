"""Guards as functions of two manifests."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.publishing.changes import evaluate, find_violated
from beam_tfrecords.transforms.request.schedule_spec import Guard, ScheduleSpec

COUNTS = st.integers(0, 1000)
SPLITS = st.fixed_dictionaries(
    {"records": COUNTS, "bytes": COUNTS, "classes": st.dictionaries(st.sampled_from(["cat", "dog", "owl"]), COUNTS)}
)


@st.composite
def manifests(draw) -> dict[str, Any]:
    splits = draw(st.dictionaries(st.sampled_from(["train", "test"]), SPLITS))
    records, failures = sum(split["records"] for split in splits.values()), draw(COUNTS)
    return {
        "listed": records + failures,
        "records": records,
        "failures": failures,
        "splits": splits,
        "class_names": ["cat", "dog", "owl"],
        "median_pixels": draw(st.none() | COUNTS),
        "duplicates": {"groups_across_splits": draw(COUNTS)},
        "near_duplicates": {"groups_across_splits": draw(COUNTS)},
        "spec": {"near_duplicates": draw(st.sampled_from([None, 4])), "seed": 0},
    }


@given(manifests())
def test_a_version_like_the_one_before_trips_no_guard(manifest):
    assert not find_violated(evaluate(manifest, manifest, moved=0, spec=ScheduleSpec(), decisive=("seed",)))


@given(manifests(), st.integers(1, 1000))
def test_more_images_in_several_splits_trip_a_guard(manifest, more):
    manifest["spec"]["near_duplicates"] = 4
    for name in ("duplicates", "near_duplicates"):
        count = manifest[name]["groups_across_splits"]
        new = {**manifest, name: {"groups_across_splits": count + more}}
        (result,) = find_violated(evaluate(manifest, new, moved=0, spec=ScheduleSpec(), decisive=()))
        assert (result.guard, result.old, result.new) == (Guard.SPLITS, count, count + more)
        assert not find_violated(evaluate(new, manifest, moved=0, spec=ScheduleSpec(), decisive=()))


@given(COUNTS, COUNTS)
def test_records_may_be_as_many_as_the_ratios_allow(old, new):
    spec = ScheduleSpec(min_count_ratio=0.5, max_count_ratio=2)
    before, now = (
        {"listed": count, "records": count, "failures": 0, "splits": {}, "class_names": [], "spec": {},
         "duplicates": {"groups_across_splits": 0}} for count in (old, new)
    )  # fmt: skip
    violated = find_violated(evaluate(before, now, moved=0, spec=spec, decisive=()))
    assert [result.what for result in violated] == ([] if old <= 2 * new and new <= 2 * old else ["records"])
