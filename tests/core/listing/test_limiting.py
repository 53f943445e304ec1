"""A limit: the shares of the splits, and the samples that it takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.listing.limiting import limit_listing, share_limit
from beam_tfrecords.transforms.listing.listing import ListPlan, read_refs, write_listing
from beam_tfrecords.transforms.refs import overflow_rows
from beam_tfrecords.transforms.refs.sample_refs import SampleRef


@given(st.integers(0, 150), st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 40)))
def test_each_sample_comes_from_the_split_that_has_the_least_part_of_its_own(limit, samples):
    shares = dict.fromkeys(sorted(samples), 0)
    for _ in range(min(limit, sum(samples.values()))):
        unfinished = [split for split in shares if shares[split] < samples[split]]
        shares[min(unfinished, key=lambda split: shares[split] / samples[split])] += 1
    assert share_limit(limit, samples) == shares


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("listing")


@given(
    st.dictionaries(st.text("ab", max_size=4), st.sampled_from(["train", "test"]), min_size=1),
    st.integers(1, 9),
    st.sampled_from([0, 1 << 20]),
)
def test_a_limit_takes_the_first_samples_of_each_split(folder, splits, limit, oversized):
    refs = {key: SampleRef(key, split=split, label=key) for key, split in splits.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overflow_rows, "_OVERSIZED_BYTES", oversized)
        listing = write_listing(refs.values(), str(folder / "all"), plan=ListPlan())
        limited = limit_listing(listing, limit=limit, seed=3, folder=str(folder / "limited"))
    in_order = [key for _, key in sorted(zip(order_hashes(seed=3, keys=[*refs]).tolist(), refs, strict=True))]
    of_split = {name: [key for key in in_order if splits[key] == name] for name in listing.samples}
    shares = share_limit(limit, listing.samples)
    expected = [key for name, keys in of_split.items() for key in keys[: shares[name]]]
    assert {ref.key: ref for ref in read_refs(limited)} == {key: refs[key] for key in expected}
    assert limited.labels.keys() == listing.labels.keys()
