"""References: what is packed for the shuffle comes back as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transforms.values import SampleRef, pack_refs, unpack_refs

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


def test_refs_packed_together_come_back_in_their_order_and_take_a_third_of_the_room():
    refs = [
        SampleRef(f"train/cat/IMG_{n}.jpg", f"gs://bucket/train/cat/IMG_{n}.jpg", n, f"{n}-1700000{n}.1")
        for n in range(100)
    ]
    packed = [ref.pack() for ref in refs]
    together = pack_refs(packed)
    assert unpack_refs(together) == refs
    assert len(together) < sum(map(len, packed)) / 3
