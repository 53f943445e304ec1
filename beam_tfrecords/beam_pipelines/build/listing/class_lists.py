"""Chooses the list of classes that names the labels of an input: from the request, or from a file beside the input."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.contents import CLASSES
from beam_tfrecords.transforms.class_list import ClassList, fit_classes
from beam_tfrecords.transforms.labels import ClassNames, are_dense, fill_numbers, whole_number
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.class_files import FoundClasses
from beam_tfrecords.transforms.sources.description import Description

# Objects of such a layout have numbers from 1, as in drawn masks.
_NUMBERS_OF_OBJECTS = "objects.id"


# The classes, None if no list fits the labels; and notes on what was used and what was not.
Chosen: TypeAlias = "tuple[ClassNames | None, list[str]]"
Fitted: TypeAlias = "tuple[ClassNames, list[str]]"


def choose_classes(spec: BuildSpec, seen: Description, labels: Collection[Scalar]) -> Chosen:
    """Chooses the list of classes.

    Args:
      spec: the request, with its layout.
      seen: what the listed source sees in its input.
      labels: all labels of the input, also of samples that the request leaves out.

    Raises:
      RequestError: labels may count from 0 or from 1, a list has another length than the labels, or two lists differ.
    """
    labels = [label for label in labels if label is not None and label != ""]
    columns = spec.label_columns
    length = len(columns) or seen.labels.length
    if spec.class_names is None:
        needs_classes = CLASSES & spec.required
        if labels and needs_classes and length:
            _refuse_other_lengths(seen, columns or tuple(map(str, range(length))))
        if columns or not (labels and needs_classes):
            why = "the columns name the classes" if labels and needs_classes else "the layout has no labels"
            return None, [_unused(found, why) for found in seen.found_classes if found.classes]
        chosen, notes = _choose_found(spec, seen, labels)
        if chosen is None and seen.labels.length:
            # A class without a sample has its place too.
            every, more = _fit(spec, seen, ClassList(tuple(map(str, range(length)))), labels)
            return every, [*more, *notes]
        return chosen, notes
    if spec.map is None and length and length != len(spec.class_names):
        raise RequestError(
            f"`class_names`: {len(spec.class_names):,} names, but each label has {length:,} zeros and ones; expected a "
            "name for each",
            code="class_count_differs",
        )
    # The user's function may return other labels, which are not known yet.
    known = [] if spec.map is not None else labels
    return _fit(spec, seen, spec.class_names, known)


def _refuse_other_lengths(seen: Description, classes: Sequence[str]) -> None:
    """Refuses a list beside the input that has more or fewer names than each label has zeros and ones."""
    for found in seen.found_classes:
        if found.classes and len(found.classes) != len(classes):
            named = Reading(f"the classes {', '.join(classes)}", {"class_names": ",".join(classes)})
            raise RequestError(
                f"{found.where} has {len(found.classes):,} class names, but each label has {len(classes):,} zeros and "
                "ones; expected a name for each, in `class_names`",
                [] if any("," in name for name in classes) else [named],
                code="class_count_differs",
            )


def _choose_found(spec: BuildSpec, seen: Description, labels: Collection[Scalar]) -> Chosen:
    """Chooses the list beside the input that all labels fit."""
    fitting: dict[tuple[str, ...], tuple[FoundClasses, Fitted]] = {}
    notes: list[str] = []
    of = seen.labels
    names_itself = bool(of.names or of.are_numbered or of.text_column or of.number_column)
    for found in seen.found_classes:
        names = found.classes.names if found.classes else ()
        if found.classes is None:
            notes.append(f"{found.where} is not read as class names: {found.problem}")
        elif names_itself:
            # The input also has a class for each number that a label map leaves out.
            are_those = names == tuple(name for name in of.names if name in names)
            notes += [] if are_those else [_unused(found, "the input names its classes itself")]
        elif len({*names}) < len(names):
            notes.append(_unused(found, "it has a name twice"))
        else:
            numbers = {number for label in labels if (number := whole_number(label)) is not None}
            has_more = of.may_be_indices and not found.classes.numbers and {0, len(names)} <= numbers
            chosen = None if has_more else _fit(spec, seen, found.classes, labels, where=found.where)
            unknown = (
                len(names) if chosen is None else next((one for one in labels if chosen[0].find(one) is None), None)
            )
            if chosen is not None and unknown is None:
                fitting.setdefault(names, (found, chosen))
            else:
                notes.append(_unused(found, f"it has no class {unknown!r}"))
    if len(fitting) > 1:
        lists = [found for found, _ in fitting.values()]
        raise RequestError(
            f"`input={', '.join(spec.input)}`: {' and '.join(found.where for found in lists)} have different "
            "classes, or another order; expected one list of classes",
            [Reading(f"the classes of {one.where}", {"class_names": one.path}) for one in lists],
            code="class_names_differ",
        )
    for found, (classes, more) in fitting.values():
        return classes, [f"class names and their order from {found.where}", *more, *notes]
    return None, notes


def _unused(found: FoundClasses, why: str) -> str:
    count = len(found.classes or ())
    return f"{found.where} has {count:,} class names and is not used: {why}; `class_names` decides the classes"


def _fit(
    spec: BuildSpec, seen: Description, classes: ClassList, labels: Collection[Scalar], *, where: str = "`class_names`"
) -> Fitted:
    """Returns the classes that the labels mean, with notes on their numbers."""
    if seen.labels.length:
        # The labels are positions in a list of zeros and ones.
        classes = dataclasses.replace(classes, numbers=tuple(range(len(classes))))
    notes = list(_describe_numbers(classes))
    has_numbers = spec.layout is not None and (_NUMBERS_OF_OBJECTS in spec.layout.fields or spec.layout.draws_mask)
    if classes.numbers and _keeps_numbers(classes.numbers, has_numbers=has_numbers):
        first = int(has_numbers and classes.numbers[0] > 0)
        names = fill_numbers(classes.by_number, first=first)
        classes, notes = ClassList(names, tuple(range(first, first + len(names)))), []
    fitted = fit_classes(
        classes,
        labels,
        numbers_are_indices=seen.labels.may_be_indices,
        first_class=seen.labels.first,
        where=where,
    )
    if not classes.numbers and fitted.names_of.get(1) == classes.names[0]:
        notes.append(f"the labels are numbers from 1 to {len(classes):,}: 1 is {classes.names[0]}, which has index 0")
    return fitted, notes


def _keeps_numbers(numbers: Sequence[int], *, has_numbers: bool) -> bool:
    """Whether unused numbers of a list become classes without samples, so that each number is stored as it is."""
    is_contiguous = numbers[-1] - numbers[0] == len(numbers) - 1
    if has_numbers:
        return numbers[0] > 0 or not is_contiguous
    return not is_contiguous and numbers[0] >= 0 and are_dense(numbers, first=0)


def _describe_numbers(classes: ClassList) -> Iterator[str]:
    numbers = classes.numbers
    if numbers and numbers != tuple(range(len(numbers))):
        moved = next(index for index, number in enumerate(numbers) if index != number)
        yield (
            f"the class names have numbers from {numbers[0]:,} to {numbers[-1]:,}, and indices count from 0 in their "
            f"order: {classes.names[moved]}, number {numbers[moved]:,}, has index {moved:,}"
        )
