"""Counts of a build, and what they tell of each split."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.stats import BUILD_METRICS, Stats

SPLITS = ("train", "test", "")
KEYS = st.one_of(
    st.tuples(st.sampled_from(["written", "failed", "bytes", "dropped"]), st.sampled_from(SPLITS)),
    st.tuples(st.just("class"), st.sampled_from(SPLITS), st.sampled_from("xyz")),
    st.tuples(st.just("objects"), st.just("clipped")),
    st.tuples(st.just("kept_turned")),
)


@given(st.dictionaries(KEYS, st.integers(-2, 9)))
def test_the_counts_of_a_split_tell_what_all_counts_tell_of_it(counts):
    stats = Stats(counts)
    for split, own in stats.by_split(SPLITS).items():
        for metric in BUILD_METRICS.values():
            if metric.of_splits:
                assert metric.read(own, split) == metric.read(stats, split)
