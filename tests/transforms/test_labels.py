"""Class names, given or inferred, and the class of a label."""

from __future__ import annotations

import pytest

from transforms.errors import RequestError, SampleError
from transforms.labels import MAX_CLASSES, ClassNames, infer_class_names


def infer(*labels, numbers_are_indices=True):
    return infer_class_names(labels, numbers_are_indices=numbers_are_indices)


def test_a_number_among_names_is_a_class_of_its_own():
    classes = infer("cat", "dog", "bird", 1)
    assert classes.names == ("1", "bird", "cat", "dog")
    resolved = [classes.resolve(label) for label in ("cat", "dog", "bird", 1, "1")]
    assert resolved == [(2, "cat"), (3, "dog"), (1, "bird"), (0, "1"), (0, "1")]


def test_a_number_among_names_that_no_sample_has_is_unknown():
    assert infer("cat", "dog", 7).find(0) is None


def test_true_among_names_is_the_class_that_one_is():
    classes = infer("cat", True)
    assert classes.names == ("1", "cat")
    assert classes.find(True) == classes.find(1) == 0


@pytest.mark.parametrize("labels", [(0, 2), ("0", "2"), ("00", 2), (False, 2)])
def test_integers_alone_are_indices_up_to_the_largest(labels):
    classes = infer(*labels)
    assert classes.names == ("0", "1", "2")
    assert [classes.find(label) for label in labels] == [0, 2]


def test_names_of_folders_are_never_indices():
    classes = infer("10", "9", numbers_are_indices=False)
    assert classes.names == ("10", "9")
    assert [classes.find(label) for label in ("10", "9", "0")] == [0, 1, None]


def test_names_are_sorted_and_unique_and_empty_labels_name_no_class():
    assert infer("dog", "cat", None, "", "dog").names == ("cat", "dog")
    assert infer(None, "").names == ()


@pytest.mark.parametrize("label", [-1, MAX_CLASSES, "99999999999"])
def test_integers_that_cannot_be_indices_are_refused(label):
    with pytest.raises(RequestError, match=r"not class indices.*`class_names`"):
        infer(0, label)


def test_given_names_take_names_and_in_a_table_indices():
    table = ClassNames(("cat", "dog"), numbers_are_indices=True)
    assert [table.find(label) for label in ("dog", 1, "1", 2, -1, "bird", None, 1.0)] == [1, 1, 1] + [None] * 5
    folders = ClassNames(("cat", "dog"))
    assert [folders.find(label) for label in ("dog", 1, "1")] == [1, None, None]


def test_a_name_that_is_a_number_beats_the_index():
    assert ClassNames(("1", "0"), numbers_are_indices=True).find("0") == 1


@pytest.mark.parametrize(("label", "reason"), [(None, "label_missing"), ("", "label_missing"), (5, "unknown_class")])
def test_a_label_without_a_class_rejects_the_sample(label, reason):
    with pytest.raises(SampleError) as error:
        ClassNames(("cat",)).resolve(label)
    assert error.value.reason.value == reason
