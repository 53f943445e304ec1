"""The key prefixes of several inputs or files: the shortest ends of their paths that tell them apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.sources.inputs import key_prefixes

paths = st.lists(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join), min_size=2, max_size=6, unique=True
)


@given(paths)
def test_prefixes_are_unique_and_no_longer_than_that_takes(names):
    prefixes = key_prefixes([f"/0/1/2/3/{name}" for name in names])
    assert all(f"/0/1/2/3/{name}/".endswith(f"/{prefix}") for name, prefix in zip(names, prefixes, strict=True))
    assert not any(one.startswith(other) for one in prefixes for other in prefixes if one is not other)
    last = [name.rpartition("/")[2] for name in names]
    if len(set(last)) == len(last):
        assert prefixes == [f"{name}/" for name in last]


def test_the_bucket_is_part_of_a_prefix_but_not_its_scheme():
    assert key_prefixes(["gs://a/x.tar", "gs://b/x.tar"]) == ["a/x.tar/", "b/x.tar/"]
