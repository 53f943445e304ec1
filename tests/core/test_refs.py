"""References and locators: packing, and the names that people see."""

from __future__ import annotations

import dataclasses
import hashlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import (
    File,
    Range,
    SampleRef,
    one_image,
)
from tests.core.converting import identity, repacked

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.one_of(
    TEXT, st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.booleans(), st.binary(), st.none()
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS))
NUMBERS = st.integers(0, 2**60)
LOCATORS = st.one_of(
    st.none(),
    st.builds(File, TEXT),
    st.builds(Range, TEXT, NUMBERS, NUMBERS, TEXT),
)
OBJECTS = st.integers(0, 5).flatmap(
    lambda count: st.builds(
        Objects,
        boxes=st.tuples(*[st.floats(allow_nan=False)] * (4 * count)),
        labels=st.tuples(*[st.sampled_from(["cat", "dog", 7, None])] * count),
        values=st.dictionaries(st.sampled_from(["area", "pose"]), st.tuples(*[SCALARS] * count)),
        image_id=TEXT,
        size=st.none() | st.tuples(NUMBERS, NUMBERS),
        is_normalized=st.booleans(),
    )
)
REFS = st.builds(
    SampleRef,
    key=TEXT,
    images=st.dictionaries(st.sampled_from(["image", "mask", "left", "frames[0]"]), LOCATORS.filter(bool)),
    size=NUMBERS,
    fingerprint=TEXT,
    label=VALUES,
    split=st.none() | TEXT,
    columns=st.dictionaries(TEXT, VALUES),
    failure=st.none() | st.tuples(TEXT, TEXT),
    objects=st.none() | OBJECTS,
)


def photo(number: int) -> SampleRef:
    uri = f"gs://bucket/photos/train/cat/IMG_{number:04d}.jpg"
    return SampleRef(f"train/cat/IMG_{number:04d}.jpg", one_image(File(uri)), 123456, f"123456-17000{number:05d}.1")


@given(REFS)
def test_a_reference_survives_packing_with_the_type_of_its_locator(ref):
    unpacked = repacked(ref)
    assert unpacked == ref
    assert {name: type(one) for name, one in unpacked.images.items()} == {
        name: type(one) for name, one in ref.images.items()
    }


def test_an_object_takes_less_than_50_bytes_and_a_sample_without_objects_none():
    boxes = tuple(number + 0.37 for number in range(40))
    objects = Objects(boxes, ("person",) * 10, {"is_crowd": (0,) * 10, "area": (1234.5,) * 10})
    with_objects = dataclasses.replace(photo(1), objects=objects)
    assert len(with_objects.pack()) - len(dataclasses.replace(photo(1), objects=Objects()).pack()) < 10 * 50
    assert hashlib.blake2b(photo(1).pack(), digest_size=8).hexdigest() == "fa78120987edaa4e"
    assert hashlib.blake2b(identity(photo(1)), digest_size=8).hexdigest() == "c6b0e4f635128d98"


@given(REFS, OBJECTS)
def test_objects_are_part_of_the_identity(ref, objects):
    changed = dataclasses.replace(ref, objects=objects)
    # 0.0 and -0.0 are equal, but not the same.
    is_same = ref.objects is not None and msgpack.packb(objects.pack()) == msgpack.packb(ref.objects.pack())
    assert (identity(changed) == identity(ref)) == is_same


@pytest.mark.parametrize(
    ("locator", "uri"),
    [
        (None, None),
        (File("/photos/1.jpg"), "/photos/1.jpg"),
        (Range("/photos.tar", 512, 100, "/photos.tar#cat/1.jpg"), "/photos.tar#cat/1.jpg"),
        (File("/photos.zip#/cat/1.jpg"), "/photos.zip#cat/1.jpg"),
    ],
    ids=["row", "file", "range", "zip"],
)
def test_the_uri_of_a_sample_is_the_name_that_people_know(locator, uri):
    assert SampleRef("key", one_image(locator)).uri == uri


def test_an_image_that_belongs_to_another_makes_a_sample_another_one():
    photo, mask = File("/photos/1.jpg"), File("/masks/1.png")
    pair = SampleRef("1", {"image": photo, "mask": mask}, 5, "f")
    assert pair.locator == photo
    assert pair.uri == "/photos/1.jpg"
    assert identity(pair) != identity(SampleRef("1", {"image": photo}, 5, "f"))
