"""References: what is packed for the shuffle comes back as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transforms.values import SampleRef

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.one_of(
    TEXT, st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.booleans(), st.binary(), st.none()
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS))


@given(
    st.builds(
        SampleRef,
        key=TEXT,
        uri=st.none() | TEXT,
        size=st.integers(0, 2**60),
        fingerprint=TEXT,
        label=VALUES,
        split=st.none() | TEXT,
        columns=st.dictionaries(TEXT, VALUES),
        failure=st.none() | st.tuples(TEXT, TEXT),
    )
)
def test_a_ref_survives_packing(ref):
    assert SampleRef.unpack(ref.pack()) == ref


def test_a_ref_of_a_photo_is_a_few_hundred_bytes():
    ref = SampleRef(
        "train/cat/IMG_0001.jpg", "gs://bucket/photos/train/cat/IMG_0001.jpg", 123456, "123456-1700000000.1"
    )
    assert len(ref.pack()) < 200
