"""Class names, given or inferred, and the class of a label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.transforms.labels import (
    MAX_CLASSES,
    ClassNames,
    ClassOrder,
    describe_labels,
    describe_order,
    describe_unique,
    infer_class_names,
    keep_indices,
    order_classes,
)
from tests.refusals import refuses


def infer(*labels, numbers_are_indices=True):
    return infer_class_names(labels, numbers_are_indices=numbers_are_indices)


def test_numbers_among_names_are_refused():
    with refuses("mixed_labels", "class_names", says=["class_names=1,bird,cat,dog", "'bird', 'cat', 'dog'"]):
        infer("cat", "dog", "bird", 1)


@pytest.mark.parametrize("label", [1, "1", "1.0", True])
def test_a_number_is_no_index_where_the_classes_are_names_that_were_found(label):
    assert infer("cat", "dog").find(label) is None


def test_booleans_are_the_names_false_and_true():
    classes = infer(True, False)
    assert classes.names == ("false", "true")
    assert [classes.find(label) for label in (False, True, "true")] == [0, 1, 1]


@pytest.mark.parametrize("labels", [(0, 2), ("0", "2"), ("0.0", "2.0"), (0.0, 2.0), ("0", 2)])
def test_whole_numbers_are_indices_up_to_the_largest(labels):
    classes = infer(*labels)
    assert classes.names == ("0", "1", "2")
    assert [classes.find(label) for label in labels] == [0, 2]


def test_floats_as_pandas_writes_them_are_not_sorted_as_text():
    labels = [f"{number}.0" for number in range(12)]
    classes = infer(*labels)
    assert [classes.find(label) for label in labels] == list(range(12))


def test_leading_zeros_make_names():
    classes = infer("000", "010", "9")
    assert classes.names == ("000", "9", "010")
    assert [classes.find(label) for label in ("000", "9", "010", "0", 0)] == [0, 1, 2, None, None]


def test_numbers_with_large_gaps_are_names_sorted_as_numbers():
    classes = infer(2004, 1999, 812)
    assert classes.names == ("812", "1999", "2004")
    assert [classes.find(label) for label in (1999, "1999", "1999.0", 1)] == [1, 1, 1, None]


def test_dense_numbers_and_names_need_no_note():
    for labels in ([0, 1, 2], ["cat", "dog"]):
        assert describe_labels(labels, infer(*labels), in_cells=True) == []


@pytest.mark.parametrize("label", [0.5, "1.5"])
def test_fractions_are_refused(label):
    with refuses("labels_not_classes", "label_type", "class_names", says=["fractions"]):
        infer(label, 2)


def test_zip_codes_are_refused():
    with refuses("labels_not_classes", "label_type", "class_names", says=["10001", "94103"]):
        infer("10001", "94103")


def test_names_of_folders_are_never_indices_and_sort_as_numbers():
    classes = infer("10", "9", "2", numbers_are_indices=False)
    assert classes.names == ("2", "9", "10")
    assert [classes.find(label) for label in ("10", "9", "0")] == [2, 1, None]
    assert infer(*"0123456789", numbers_are_indices=False).find("7") == 7


def test_names_are_compared_in_composed_form():
    assert infer("Hu\u0308ndin", "H\xfcndin").names == ("H\xfcndin",)
    assert ClassNames(("H\xfcndin",)).find("Hu\u0308ndin") == 0


@pytest.mark.parametrize("labels", [("cat|dog", "bird|cat"), ("cat;dog", "dog", "bird"), ("cat, dog", "cat")])
def test_a_cell_that_looks_like_several_labels_gets_a_note(labels):
    (note,) = describe_labels(labels, infer(*labels), in_cells=True)
    assert "several labels" in note
    assert "`label_separator=" in note


def test_a_comma_in_some_names_gets_no_note():
    labels = ("tench, Tinca tinca", "goldfish", "shark")
    assert describe_labels(labels, infer(*labels), in_cells=True) == []


def test_names_are_sorted_and_unique_and_empty_labels_name_no_class():
    assert infer("dog", "cat", None, "", "dog").names == ("cat", "dog")
    assert infer(None, "").names == ()


@pytest.mark.parametrize("label", [-1, MAX_CLASSES, "99999999999"])
def test_integers_that_cannot_be_indices_are_refused(label):
    with refuses("labels_not_classes", "label_type", "class_names"):
        infer(0, label)


def test_given_names_take_names_and_in_a_table_indices():
    table = ClassNames(("cat", "dog"), numbers_are_indices=True)
    assert [table.find(label) for label in ("dog", 1, "1", 1.0, "1.0", 2, -1, "bird", None, "01")] == [1] * 5 + [
        None
    ] * 5
    folders = ClassNames(("cat", "dog"))
    assert [folders.find(label) for label in ("dog", 1, "1")] == [1, None, None]


def test_a_name_that_is_a_number_beats_the_index():
    classes = ClassNames(("1", "0"), numbers_are_indices=True)
    assert [classes.find(label) for label in ("0", 0, 0.0, 2)] == [1, 1, 1, None]


@pytest.mark.parametrize(("label", "reason"), [(None, "label_missing"), ("", "label_missing"), (5, "unknown_class")])
def test_a_label_without_a_class_rejects_the_sample(label, reason):
    with pytest.raises(SampleError) as error:
        ClassNames(("cat",)).resolve(label)
    assert error.value.reason.value == reason


def test_a_class_index_without_samples_is_noted():
    (note,) = describe_labels([1, 2, 3], infer(1, 2, 3), in_cells=True)
    assert note.startswith("the labels are class indices, and no sample has 0: there are 4 classes, 3 with samples")


@pytest.mark.parametrize("labels", [range(18, 91, 2), range(1000, 9000, 200)], ids=["ages", "identifiers"])
def test_numbers_that_look_like_ages_or_identifiers_are_noted(labels):
    assert any("ages or identifiers" in note for note in describe_labels(labels, infer(*labels), in_cells=True))


def test_classes_that_differ_only_in_case_are_noted():
    (note,) = describe_labels(["Cat", "cat", "dog"], infer("Cat", "cat", "dog"), in_cells=True)
    assert note == "classes that differ only in case are classes of their own: 'Cat', 'cat'"


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


@pytest.mark.parametrize(
    ("found", "ordered", "note"),
    [
        (("a", "b"), ("a", "b"), []),
        (("b",), ("a", "b"), ["1 without samples: 'a'; 1 would have another index"]),
        (("a", "b"), ("b", "a"), ["(2 would have another index"]),
        (("a",), ("a", "b"), ["(1 without samples: 'b')"]),
    ],
)
def test_classes_with_other_indices_than_without_versions_are_noted(found, ordered, note):
    notes = list(describe_order(found, ordered))
    assert len(notes) == len(note)
    assert all(part in one for one, part in zip(notes, note, strict=True))


def test_labels_that_are_nearly_unique_are_noted():
    (note,) = describe_unique({**{f"a photo of cat {number}": 1 for number in range(40)}, "a dog": 3})
    assert "41 classes for 43 labels" in note
    assert "`label_type=text`" in note
    assert describe_unique({f"class {number}": 3 for number in range(40)}) == []
    assert describe_unique(dict.fromkeys(range(40), 1)) == []
    assert describe_unique({"cat": 1, "dog": 1}) == []
