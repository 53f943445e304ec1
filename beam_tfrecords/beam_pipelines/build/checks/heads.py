"""Determines the classes of features such as `{field: column.age, type: class}`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords.beam_pipelines.build.checks.classes import find_lists
from beam_tfrecords.dataset.label_files import fits_label_file
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.layouts import Feature
from beam_tfrecords.transforms.class_list import fit_classes, parse_class_words
from beam_tfrecords.transforms.labels import (
    ClassNames,
    describe_labels,
    describe_order,
    infer_class_names,
    keep_indices,
    whole_number,
)
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

_MOST_SHOWN = 5


def resolve_heads(
    spec: BuildSpec, source: Source, listing: Listing, tally: Tally, kept: Mapping[str, Sequence[str]]
) -> dict[str, ClassNames]:
    """Returns feature -> its classes: those of the request, or of all values of the column, as labels have them.

    Args:
      spec: the request, with its layout.
      source: the listed source.
      listing: its samples.
      tally: receives notes.
      kept: feature -> classes of the dataset whose indices may be kept, in index order.

    Raises:
      RequestError: the values of a column are no classes, or not in the request.
    """
    found: dict[str, ClassNames] = {}
    for name, head in spec.layout.heads.items() if spec.layout else ():
        where = f"`layout`: feature {name!r}"
        counts: Mapping[Scalar, int] = listing.column_labels.get(head.column or "", {})
        labels: dict[Scalar, int] = {label: count for label, count in counts.items() if label is not None}
        try:
            found[name], notes = _find_classes(head, spec, source, labels, kept.get(name, ()))
        except RequestError as error:
            # The suggestions of labels are settings, which do not act here.
            raise RequestError(f"{where}: {error}", code=error.code) from error
        if head.class_names and spec.map is None:
            _check_given(where, found[name], labels, most=spec.max_failures * listing.total)
        unfit = next((one for one in found[name].names if not fits_label_file(one)), None)
        if unfit is not None:
            raise RequestError(
                f"{where}: class {unfit!r} starts or ends with a space or contains a line break, so TensorFlow "
                "Datasets would read another name; rename the class in the input",
                code="invalid_class_name",
            )
        tally.notes += [f"feature {name!r}: {note}" for note in notes]
    return found


def _find_classes(
    head: Feature, spec: BuildSpec, source: Source, labels: Mapping[Scalar, int], kept: Sequence[str]
) -> tuple[ClassNames, list[str]]:
    """Returns the classes of a feature, and notes on them."""
    seen = source.description
    stored = {one.column for one in seen.records.layout.heads.values()} if seen.records else set()
    declared = seen.column_classes.get(head.column or "")
    if head.class_names:
        given = parse_class_words(head.class_names)
        # The labels that a function returns are unknown here.
        known = [] if spec.map else labels
        fitted = fit_classes(given, known, numbers_are_indices=True, where="class_names")
        first = given.names[0]
        from_one = not given.numbers and fitted.names_of.get(1) == first
        return fitted, [f"the numbers of its classes are from 1: 1 is {first}, which has index 0"] * from_one
    if not labels:
        raise RequestError(
            f"no sample has a value in column {head.column!r}; expected its classes, as class_names: [a, b]",
            code="missing_class_names",
        )
    if declared is None and (several := find_lists(labels)):
        raise RequestError(
            f"values such as {printable(repr(several[1]))} may be several classes, and a class is one value; expected "
            "the classes if each is one, as class_names: [a, b]",
            code="unclear_labels",
        )
    inferred = _declared(head, declared) or infer_class_names(
        labels,
        # Groups of paths are names, as folders are, and so are classes that a dataset of ours has stored.
        numbers_are_indices=not (spec.label_pattern or head.column in stored),
        remedy="use `type: float` to store numbers, or name the classes: class_names: [a, b]",
    )
    numbered = keep_indices(kept, inferred, spec.order_of_classes)
    notes = [*describe_order(inferred.names, numbered.names)]
    notes += [] if declared else describe_labels(labels, numbered, in_cells=False)
    return numbered, [*notes, *([f"the only class is {numbered.names[0]}"] if len(numbered.names) == 1 else [])]


def _declared(head: Feature, names: Sequence[str] | None) -> ClassNames | None:
    """Returns the classes that the source declares for a column of class numbers; None if it declares none.

    Raises:
      RequestError: its files declare different classes, or a number may be a name or an index.
    """
    if names is None:
        return None
    if not names or any(whole_number(name) not in (None, index) for index, name in enumerate(names)):
        what = "different class names" if not names else "class names that are numbers in another order"
        raise RequestError(
            f"the input declares {what} for column {head.column!r}; expected them in index order, as "
            "class_names: [a, b]",
            code="class_names_differ",
        )
    return ClassNames(tuple(names), names_of=dict(enumerate(names)))


def _check_given(where: str, classes: ClassNames, labels: Mapping[Scalar, int], *, most: float) -> None:
    """Checks that labels are among the class names of the request; tolerates as many as may fail."""
    unknown = {label: count for label, count in labels.items() if classes.find(label) is None}
    if sum(unknown.values()) > most:
        shown = ", ".join(sorted(map(repr, unknown))[:_MOST_SHOWN]) + (", …" if len(unknown) > _MOST_SHOWN else "")
        raise RequestError(
            f"{where}: class_names are {', '.join(classes.names[:_MOST_SHOWN])}"
            f"{', …' if len(classes.names) > _MOST_SHOWN else ''}, and {sum(unknown.values()):,} samples have other "
            f"classes: {shown}",
            code="unknown_class",
        )
