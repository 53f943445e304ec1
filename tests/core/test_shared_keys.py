"""A key that samples of several splits share is found in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.listing import shared_keys
from beam_tfrecords.transforms.listing.listing import ListPlan, write_listing
from beam_tfrecords.transforms.listing.shared_keys import find_shared_key
from beam_tfrecords.transforms.refs.sample_refs import SampleRef

rows = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["train", "test"])), min_size=1, max_size=30)


@given(rows, st.sampled_from([3, 1000]))
def test_a_key_of_several_splits_is_found_whatever_the_memory(tmp_path_factory, found, most):
    folder = str(tmp_path_factory.mktemp("listing"))
    refs = [SampleRef(key, {}, split=split) for key, split in found]
    listing = write_listing(refs, folder, plan=ListPlan())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_keys, "_MOST_HASHES", most)
        shared = find_shared_key(listing)
    splits = {key: {split for other, split in found if other == key} for key, _ in found}
    several = [key for key, of in splits.items() if len(of) > 1]
    assert (shared is not None) == bool(several)
    assert shared is None or (shared[0] in several and shared[1] == ["test", "train"])
