"""References with one key: merged with all that they say, or rejected; never one of them by chance."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.blocks.rows import keep_last, merge_rows, reject_duplicates
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import MASK, File, Range, SampleRef, one_image

_IMAGE = one_image(File("in/a.jpg"))
_BOX = st.tuples(*[st.floats(0, 9, allow_nan=False)] * 4)
_OBJECTS = st.lists(st.tuples(_BOX, st.sampled_from(["cat", "dog"]), st.integers(0, 1)), max_size=4)
_SAMPLES = st.builds(
    SampleRef,
    key=st.sampled_from("abc"),
    images=st.sampled_from([_IMAGE, one_image(File("in/b.jpg"))]),
    label=st.sampled_from(["cat", "dog"]),
    columns=st.fixed_dictionaries({"x": st.integers(0, 1)}),
    failure=st.sampled_from([None, None, ("unreadable", "why")]),
)


def objects_of(found) -> Objects:
    boxes = tuple(side for box, _, _ in found for side in box)
    labels = tuple(label for _, label, _ in found)
    points = tuple(b"\0" * 24 for _ in found)
    polygons = tuple(b"polygons" for _ in found)
    return Objects(boxes, labels, {"is_crowd": tuple(crowd for *_, crowd in found)}, "", None, False, polygons, points)


def sorted_columns(refs) -> list[RefColumns]:
    """As a block has them; some at once, so that equal keys may be in two."""
    return list(RefColumns.of(sorted(refs, key=lambda ref: (ref.key, ref.pack())), most=2))


def merge(refs) -> tuple[list[SampleRef], int]:
    counts: Counter = Counter()
    return list(merge_rows(refs, counts, split="train")), counts["merged", "train"]


@given(rows=st.lists(_OBJECTS, min_size=1, max_size=6))
def test_rows_of_one_image_keep_the_objects_of_all(rows):
    refs = [SampleRef("a", _IMAGE, objects=objects_of(found)) for found in rows]
    ((merged,), count) = merge(refs)
    everything = objects_of([one for found in rows for one in found])
    assert count == len(rows) - 1
    for name in ("boxes", "labels", "polygons", "keypoints"):
        assert getattr(merged.objects, name) == getattr(everything, name)
    if everything.labels:
        assert merged.objects.values == everything.values


def test_more_rows_than_an_image_can_have_are_one_rejected_sample(monkeypatch):
    monkeypatch.setattr("beam_tfrecords.transforms.blocks.rows.MOST_OBJECTS", 4)
    box = objects_of([((0, 0, 1, 1), "cat", 0)])
    for count in (4, 5, 9):
        refs = [SampleRef("a", _IMAGE, label=number, objects=box) for number in range(count)]
        (merged, other), joined = merge([*refs, SampleRef("b", _IMAGE, objects=box)])
        expected = ("conflicting_rows", "more than 4 rows of one sample") if count > 4 else None
        assert (merged.failure, other.failure, joined) == (expected, None, count - 1)


def test_values_of_one_row_stay_together_and_rows_that_say_the_same_count_once():
    cells = [(1, 5, "z"), (1, 6, "z"), (2, 5, "z"), (1, 5, "z")]
    refs = [SampleRef("a", _IMAGE, columns=dict(zip("xyn", row, strict=True))) for row in cells]
    ((merged,), count) = merge(refs)
    assert merged.columns == {"x": [1, 1, 2], "y": [5, 6, 5], "n": "z"}
    assert count == 3


@pytest.mark.parametrize(
    "change",
    [
        {"images": one_image(File("in/b.jpg"))},
        {"images": {**_IMAGE, MASK: File("masks/a.png")}},
        {"objects": Objects((0, 0, 1, 1), ("cat",), {}, is_normalized=True)},
        {"objects": Objects((0, 0, 1, 1), ("cat",), {}, size=(9, 9))},
        {"objects": Objects((0, 0, 1, 1), ("cat",), {"area": (1,)})},
        {"objects": Objects((0, 0, 1, 1), ("cat",), {}, keypoints=(b"\0" * 12,))},
    ],
)
def test_rows_that_cannot_be_merged_are_one_rejected_sample(change):
    ref = SampleRef("a", _IMAGE, objects=Objects((0, 0, 1, 1), ("dog",)))
    (row,), count = merge([ref, dataclasses.replace(ref, **change), ref])
    assert (row.failure[0], count) == ("conflicting_rows", 2)


@given(refs=st.lists(_SAMPLES, max_size=12))
def test_of_one_key_the_same_is_kept_once_and_contradictions_are_rejected_all(refs):
    found = [ref for columns in reject_duplicates(sorted_columns(refs)) for ref in columns]
    assert len(found) == len(refs)
    for key in {ref.key for ref in refs}:
        sound = [ref for ref in refs if ref.key == key and ref.failure is None]
        reasons = Counter(ref.failure and ref.failure[0] for ref in found if ref.key == key)
        said = {(ref.label, ref.columns["x"], ref.uri) for ref in sound}
        assert reasons["unreadable"] == sum(ref.key == key and ref.failure is not None for ref in refs)
        if len(said) > 1:
            assert (reasons["conflicting_rows"], reasons[None]) == (len(sound), 0)
        else:
            assert (reasons["duplicate_key"], reasons[None]) == (max(0, len(sound) - 1), min(1, len(sound)))


@given(names=st.lists(st.sampled_from("abc"), max_size=12))
def test_the_last_member_of_each_name_is_kept_and_the_others_are_counted(names):
    refs = [
        SampleRef(name, one_image(Range("x.tar", n, 1, f"x.tar#{name}")), fingerprint=f"f@{n}")
        for n, name in enumerate(names)
    ]
    counts: Counter = Counter()
    found = [ref for columns in keep_last(sorted_columns(refs), counts, split="train") for ref in columns]
    assert {ref.key: ref for ref in found} == {ref.key: ref for ref in refs}
    assert len(found) == len(set(names)) == len(names) - counts["replaced", "train"]
