"""The shares that splits have of a limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.listing.limiting import share_limit


@given(st.integers(0, 150), st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 40)))
def test_each_sample_comes_from_the_split_that_has_the_least_part_of_its_own(limit, samples):
    shares = dict.fromkeys(sorted(samples), 0)
    for _ in range(min(limit, sum(samples.values()))):
        unfinished = [split for split in shares if shares[split] < samples[split]]
        shares[min(unfinished, key=lambda split: shares[split] / samples[split])] += 1
    assert share_limit(limit, samples) == shares
