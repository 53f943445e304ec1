"""Determines the classes of a build and of its features, and checks that the listed labels are among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords.dataset.label_files import fits_label_file
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.contents import CLASSES, Content
from beam_tfrecords.features.fields import ClassValue
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.nearest import did_you_mean
from beam_tfrecords.transforms.class_list import fit_classes, parse_class_words
from beam_tfrecords.transforms.labels import (
    ClassNames,
    are_dense,
    describe_labels,
    describe_misspelled,
    describe_order,
    describe_unique,
    fill_numbers,
    find_separator,
    infer_class_names,
    keep_indices,
    name_by_texts,
    name_numbered,
    repeats_parts,
    whole_number,
    words_recur,
)
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.detect.column_names import is_plural
from beam_tfrecords.transforms.sources.detect.column_suggestions import one_hot_columns
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.registry import find_source
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

_MOST_CLASSES = 10
# Cells of this many words are rarely lists of classes.
_LEAST_WORDS = 3
# Labels may be texts if half of them have several words, there are this many, and more than this share is distinct.
_LEAST_TEXTS, _UNIQUE = 4, 0.5
_MOST_SHOWN = 5


def resolve_classes(
    spec: BuildSpec, source: Source, listing: Listing, tally: Tally, kept: Sequence[str], chosen: ClassNames | None
) -> ClassNames:
    """Returns the class names as `_find_classes` does, with the background if only drawn masks have the classes."""
    found = _find_classes(spec, source, listing, tally, kept, chosen)
    return found.with_background(listing.labels) if _has_background(spec) else found


def _has_background(spec: BuildSpec) -> bool:
    layout = spec.layout
    return layout is not None and layout.draws_mask and not any(feature.class_value for feature in layout.features)


def _find_classes(
    spec: BuildSpec, source: Source, listing: Listing, tally: Tally, kept: Sequence[str], chosen: ClassNames | None
) -> ClassNames:
    """Returns the class names: of the request, the columns, the source, a list beside the input, or the listed labels.

    Args:
      spec: the request.
      source: the listed source.
      listing: its samples.
      tally: receives notes.
      kept: the classes of the dataset whose indices may be kept, in index order.
      chosen: the classes of the request or of a list beside the input.

    Raises:
      RequestError: the class names do not fit the labels, or there is only one class.
    """
    seen, of_masks = source.description, spec.mask_class_names
    if spec.layout is None or not CLASSES & spec.required:
        of_masks = of_masks or (tuple(seen.labels.names) if seen.records else ())
        return _check_names(ClassNames(spec.class_names.names if spec.class_names else of_masks), spec, listing)
    if of_masks:
        tally.notes.append(
            f"the class names of the masks are not stored, because the layout has labels: 0 is {of_masks[0]}, and so "
            "on in their order"
        )
    label_columns = spec.label_columns
    if spec.class_names is None and label_columns:
        tally.notes += [
            f"no row has a one in column {name!r}" for name in label_columns if not listing.labels.get(name)
        ]
        return _number_classes(spec, listing, tally, ClassNames(label_columns), kept)
    tally.notes += _describe_one_hot(spec, source, listing)
    if spec.class_names is not None and chosen is not None:
        # The user's function may return other labels, which are not known yet.
        if spec.map:
            return _check_names(chosen, spec, listing)
        return _check_given(spec, source, listing, chosen)
    if chosen is not None:
        return _number_classes(spec, listing, tally, chosen, kept)
    first = max(seen.labels.first, int(_stores_ids(spec.layout)))
    if seen.labels.names:
        numbers = seen.labels.by_file.get("", {})
        names = (_number_names(seen.labels.names, numbers) if first else ()) or tuple(seen.labels.names)
        return _number_classes(spec, listing, tally, ClassNames(names), kept)
    if seen.labels.are_numbered:
        return _number_classes(spec, listing, tally, name_numbered(listing.labels, first_class=first), kept)
    if beside := seen.labels.text_column or seen.labels.number_column:
        kinds, kind = ("names", "text") if seen.labels.text_column else ("numbers", "number")
        found, are_named = name_by_texts(listing.labels, first_class=first, are_texts=not seen.labels.text_column)
        tally.notes.append(
            f"class {kinds} from the column {beside!r}"
            if are_named
            else f"the column {beside!r} is not used: it does not have one {kind} for each label"
        )
        return _number_classes(spec, listing, tally, found, kept)
    in_cells = seen.labels.may_be_indices and spec.label_separator is None
    if in_cells:
        _refuse_lists(spec, source, listing)
        _refuse_texts(spec, source, listing)
    inferred = infer_class_names(
        listing.labels,
        numbers_are_indices=seen.labels.may_be_indices,
        first_class=first,
    )
    inferred = inferred.with_background(listing.labels) if _has_background(spec) else inferred
    if not kept:
        _refuse_single_class(spec, source, listing, inferred)
    numbered = _number_classes(spec, listing, tally, inferred, kept)
    if seen.labels.first:
        return numbered
    tally.notes += describe_labels(listing.labels, numbered, in_cells=in_cells)
    if seen.labels.may_be_indices:
        tally.notes += describe_unique(listing.labels)
    tally.notes += describe_misspelled(listing.labels)
    return numbered


def _stores_ids(layout: Layout) -> bool:
    """Whether the only class numbers of a layout count from 1."""
    return {one.class_value for one in layout.features} - {None, ClassValue.NAME} == {ClassValue.ID}


def _number_names(names: Sequence[str], numbers: Mapping[Scalar, int]) -> tuple[str, ...]:
    """Returns classes from number 1 on, so that a layout with numbers from 1 keeps the numbers of the input.

    Returns:
      The names; `category_2` for a number without a class. Empty if the numbers start at 0 or are too far apart.
    """
    by_number = {numbers[name]: name for name in names if name in numbers}
    if len(by_number) < len(names) or min(by_number) < 1 or not are_dense(by_number, first=1):
        return ()
    return fill_numbers(by_number, first=1)


def _refuse_lists(spec: BuildSpec, source: Source, listing: Listing) -> None:
    """Refuses cells such as `cat|dog` beside `dog|fox`, which may be one class or several."""
    several = find_lists(listing.labels, column=source.description.label_column or "")
    if several is None:
        return
    separator, text = several
    raise RequestError(
        f"`input={', '.join(spec.input)}`: labels such as {printable(repr(text))} may be several classes "
        "in one cell; give their separator in `label_separator`",
        [
            Reading(f"the classes between {separator!r}", {"label_separator": separator}),
            Reading("each cell as one class", {"label_separator": ""}),
        ],
        code="unclear_labels",
    )


def find_lists(labels: Iterable[Scalar], *, column: str = "") -> tuple[str, str] | None:
    """Returns the separator in cells of a column that look like several classes each, and one of them, or None."""
    texts = [label for label in labels if isinstance(label, str) and label]
    separator = find_separator(texts) or (" " if words_recur(texts, are_several=is_plural(column)) else None)
    are_lists = sum(text.strip()[:1] == "[" and text.strip()[-1:] == "]" for text in texts) * 2 > len(texts)
    vocabulary = {word for text in texts for word in text.split()}
    # In a column such as `tags`, cells that combine a few words are not sentences.
    are_tags = is_plural(column) and 2 * len(vocabulary) < len({*texts})
    are_sentences = sum(len(text.split()) >= _LEAST_WORDS for text in texts) * 2 > len(texts) and not are_tags
    repeat = not are_sentences and repeats_parts(texts, separator)
    if separator is None or not (are_lists or repeat):
        return None
    return separator, next((text for text in texts if separator in text), texts[0])


def _suggest_parts(texts: Sequence[str], column: str | None) -> list[Reading]:
    """Suggests that the words of texts are several classes each, if these repeat."""
    separator = find_separator(texts)
    if separator is None or not repeats_parts(texts, separator):
        return []
    return [Reading(f"the classes between {separator!r}", {"label_column": column, "label_separator": separator})]


def _refuse_texts(spec: BuildSpec, source: Source, listing: Listing) -> None:
    """Refuses labels that may be texts: of several words, and most of them distinct."""
    counts = {label: count for label, count in listing.labels.items() if isinstance(label, str) and label}
    total, column, unit = sum(counts.values()), source.description.label_column, source.description.unit
    several = sum(len(label.split()) > 1 for label in counts)
    has_columns = find_source(source.name, "").has_columns
    is_said = column is None or not has_columns or spec.label_column is not None
    if is_said or total < _LEAST_TEXTS or len(counts) <= _UNIQUE * total or several * 2 < len(counts):
        return
    # Only refused requests need this module here.
    from beam_tfrecords.transforms.listing.listing import read_light

    keys = next((refs.keys for refs in read_light(listing)), [])
    texts = {"label_column": column, "label_type": "text"}
    readings = [
        Reading(f"the texts in column {column!r}", texts),
        Reading("each text as a class", {"label_column": column}),
    ]
    if 2 * len({*keys}) <= len(keys):
        # Several rows of an image contradict each other.
        meaning = f"the texts in column {column!r} of all rows of an image"
        readings = [Reading(meaning, {**texts, "group_rows": True})]
    if not any(map(str.isalpha, "".join(counts))):
        # Such as boxes behind the name of their image.
        readings = []
    raise RequestError(
        f"`input={', '.join(spec.input)}`: column {column!r} has {len(counts):,} texts in {total:,} "
        f"{unit}s, such as {printable(repr(max(counts, key=len)))}; expected their type in `label_type`",
        [*_suggest_parts(list(counts), column), *readings],
        code="unclear_labels",
    )


def _refuse_single_class(spec: BuildSpec, source: Source, listing: Listing, found: ClassNames) -> None:
    """Refuses labels with only one value, because the column is probably not the label."""
    count = sum(count for label, count in listing.labels.items() if label is not None and label != "")
    is_said = spec.classes or spec.label_separator or listing.total == spec.limit
    has_objects = Content.OBJECTS in spec.required
    # If more samples than allowed have no label, the build reports them.
    if len(listing.labels.keys() - {None, ""}) != 1 or listing.total - count > spec.max_failures * listing.total:
        return
    if is_said or has_objects:
        return
    name = found.names[-1]
    other_labels = source.description.other_labels
    beside, others = other_labels() if other_labels else ("", ())
    single = Reading(f"the class {name}", {"class_names": name})
    unlabelled = Reading("all images, without labels", {"layout": "image"})
    raise RequestError(
        f"`input={', '.join(spec.input)}`: {printable(name)} would be the only class, of all {count:,} "
        f"{source.description.unit}s{beside}",
        [
            *others[:1],
            *([single] if "," not in name and name == name.strip() and fits_label_file(name) else []),
            *([unlabelled] if Content.IMAGE in source.description.provides else []),
        ],
        code="single_class",
    )


def _check_given(spec: BuildSpec, source: Source, listing: Listing, class_names: ClassNames) -> ClassNames:
    """Checks that labels are among the class names of the request; tolerates as many as may fail."""
    present = {class_names.find(label) for label in listing.labels}
    known = [name for index, name in enumerate(class_names.names) if index in present]
    fits = not spec.classes and 0 < len(known) <= 2 * _MOST_CLASSES
    leave = f"; use `classes={','.join(known)}` to leave them out" if fits else ""
    named = f"`class_names={','.join(class_names.names)}`"
    if unknown := _describe_unknown(named, class_names, listing.labels, spec, listing, otherwise=leave):
        raise RequestError(unknown, code="unknown_class")
    return _check_names(class_names, spec, listing)


def _describe_unknown(
    named: str,
    classes: ClassNames,
    labels: Mapping[Scalar, int],
    spec: BuildSpec,
    listing: Listing,
    *,
    otherwise: str = "",
) -> str:
    """Describes labels that are not among the classes of the request; "" if no more samples have one than may fail.

    Args:
      otherwise: advice for labels that are like no class.
    """
    unknown: dict[Scalar, int] = {
        label: count for label, count in labels.items() if label is not None and classes.find(label) is None
    }
    samples = sum(unknown.values())
    if samples <= spec.max_failures * listing.total:
        return ""
    shown = ", ".join(sorted(map(repr, unknown))[:_MOST_SHOWN]) + (", …" if len(unknown) > _MOST_SHOWN else "")
    hint = did_you_mean(str(min(unknown, key=str)), classes.names)
    what = f"{samples} of {listing.total} samples have a class that is not among them"
    return f"{named}: {what}: {shown}{f'; {hint}' if hint else otherwise}"


def _number_classes(
    spec: BuildSpec, listing: Listing, tally: Tally, found: ClassNames, kept: Sequence[str]
) -> ClassNames:
    """Returns classes that the request does not name, with their indices; adds notes."""
    numbered = keep_indices(kept, found, spec.order_of_classes)
    tally.notes += describe_order(found.names, numbered.names)
    return _check_names(numbered, spec, listing)


def _check_names(class_names: ClassNames, spec: BuildSpec, listing: Listing, *, where: str = "") -> ClassNames:
    """Refuses names that TFDS cannot read from its label file; `where` names a feature with its own classes."""
    unfit = [name for name in class_names.names if not fits_label_file(name)]
    if unfit:
        raise RequestError(
            f"{where}class {unfit[0]!r} starts or ends with a space or contains a line break, so TensorFlow Datasets "
            "would read another name; rename the class in the input",
            [] if where else _suggest_stripped(unfit[0], spec, listing),
            code="invalid_class_name",
        )
    return class_names


def _suggest_stripped(name: str, spec: BuildSpec, listing: Listing) -> list[Reading]:
    """Suggests to read folders as classes without the spaces around their names; renaming them in a bucket copies."""
    # Only refused inputs need this module here.
    from beam_tfrecords.transforms.listing.listing import read_refs

    folders = next((ref.key.split("/")[:-1] for ref in read_refs(listing) if ref.label == name), [])
    if name not in folders or spec.label_pattern:
        return []
    pattern = rf"^{'[^/]+/' * folders.index(name)}\s*(?P<label>[^/\s][^/]*[^/\s]|[^/\s])\s*/"
    left = {"source": None} if spec.source != "auto" else {}
    return [Reading("the names of the folders without spaces around them", {"label_pattern": pattern, **left})]


def _describe_one_hot(spec: BuildSpec, source: Source, listing: Listing) -> Iterator[str]:
    """Yields a note if a label of zeros and ones may be one of several columns, each of which is a class."""
    column, table = source.description.label_column, source.description.table
    is_one_word = column is not None and not spec.label_separator
    if not is_one_word or not {str(label) for label in listing.labels} <= {"0", "1"}:
        return
    columns = one_hot_columns(table) if table else ()
    if column in columns and len(columns) > 1:
        yield (
            f"columns {', '.join(columns)} have zeros and ones, and {column!r} alone is the label; if each is a class, "
            f"use `label_columns={','.join(columns)}`"
        )


def resolve_heads(
    spec: BuildSpec, source: Source, listing: Listing, tally: Tally, kept: Mapping[str, Sequence[str]]
) -> dict[str, ClassNames]:
    """Returns feature -> its classes: from the request, or else all values of the column, as for labels.

    Args:
      spec: the request, with its layout.
      source: the listed source.
      listing: its samples.
      tally: receives notes.
      kept: feature -> classes of the dataset whose indices may be kept, in index order.

    Raises:
      RequestError: the values of a column are not classes, or not in the request.
    """
    found: dict[str, ClassNames] = {}
    for name, head in spec.layout.heads.items() if spec.layout else ():
        where = f"`layout`: feature {name!r}"
        counts: Mapping[Scalar, int] = listing.column_labels.get(head.column or "", {})
        labels: dict[Scalar, int] = {label: count for label, count in counts.items() if label is not None}
        try:
            found[name], notes = _find_head(head, spec, source, labels, kept.get(name, ()))
        except RequestError as error:
            # Its offers are settings of the label, which do not act here.
            raise RequestError(f"{where}: {error}", code=error.code) from error
        if head.class_names and spec.map is None:
            named = f"{where}: class_names: [{', '.join(found[name].names)}]"
            if unknown := _describe_unknown(named, found[name], labels, spec, listing):
                raise RequestError(unknown, code="unknown_class")
        _check_names(found[name], spec, listing, where=f"{where}: ")
        tally.notes += [f"feature {name!r}: {note}" for note in notes]
    return found


def _find_head(
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
    if declared is None and (several := find_lists(labels, column=head.column or "")):
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
