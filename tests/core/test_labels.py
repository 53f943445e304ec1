"""Class names that are inferred: what is noted of them, and their order over versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.labels import (
    ClassNames,
    ClassOrder,
    describe_labels,
    describe_unique,
    infer_class_names,
    keep_indices,
    order_classes,
)


def infer(*labels, numbers_are_indices=True):
    return infer_class_names(labels, numbers_are_indices=numbers_are_indices)


def test_dense_numbers_and_names_need_no_note():
    for labels in ([0, 1, 2], ["cat", "dog"]):
        assert describe_labels(labels, infer(*labels), in_cells=True) == []


def test_a_name_that_is_a_number_beats_the_index():
    classes = ClassNames(("1", "0"), numbers_are_indices=True)
    assert [classes.find(label) for label in ("0", 0, 0.0, 2)] == [1, 1, 1, None]


def test_empty_labels_name_no_class():
    assert infer(None, "").names == ()


@pytest.mark.parametrize("labels", [range(18, 91, 2), range(1000, 9000, 200)], ids=["ages", "identifiers"])
def test_numbers_that_look_like_ages_or_identifiers_are_noted(labels):
    assert any("ages or identifiers" in note for note in describe_labels(labels, infer(*labels), in_cells=True))


_NAMES = st.sampled_from(["ant", "bee", "cat", "Cat", "caf\u00e9", "cafe\u0301", "7", "07", "10", "true"])


@given(nights=st.lists(st.sets(_NAMES, min_size=1), min_size=1, max_size=8))
def test_stable_classes_never_move_and_are_those_of_all_nights(nights):
    classes: tuple[str, ...] = ()
    for labels in nights:
        found = infer_class_names(labels, numbers_are_indices=False).names
        numbered = order_classes(classes, found, ClassOrder.STABLE)
        assert numbered[: len(classes)] == classes
        assert numbered[len(classes) :] == tuple(name for name in found if name not in classes)
        assert order_classes(classes, found, ClassOrder.SORTED) == found
        assert order_classes(numbered, found, ClassOrder.STABLE) == numbered  # the same night again changes nothing
        classes = numbered
    assert len(set(classes)) == len(classes)


@given(nights=st.lists(st.sets(st.integers(0, 20_000), min_size=1, max_size=6), min_size=1, max_size=5))
def test_a_number_keeps_its_index_between_versions_though_labels_become_dense_or_sparse(nights):
    classes, known = ClassNames(()), dict[int, int]()
    for labels in nights:
        try:
            found = infer_class_names(labels, numbers_are_indices=True)
        except RequestError:  # numbers that are no classes
            continue
        classes = keep_indices(classes.names, found, ClassOrder.STABLE)
        assert all(classes.find(number) == index for number, index in known.items())
        known.update({number: classes.find(number) for number in labels})
        assert None not in known.values()


def test_labels_that_are_indices_keep_them_where_the_version_before_named_its_classes():
    found = infer_class_names([0, 1], numbers_are_indices=True)
    assert keep_indices(("cat", "dog"), found, ClassOrder.STABLE) == found


def test_labels_that_are_nearly_unique_are_noted():
    (note,) = describe_unique({**{f"a photo of cat {number}": 1 for number in range(40)}, "a dog": 3})
    assert "41 classes for 43 labels" in note
    assert "`label_type=text`" in note
    assert describe_unique({f"class {number}": 3 for number in range(40)}) == []
    assert describe_unique(dict.fromkeys(range(40), 1)) == []
    assert describe_unique({"cat": 1, "dog": 1}) == []
