"""Holds the request against what the source has, before anything starts."""

from __future__ import annotations

import dataclasses
from typing import Any

from transforms.errors import RequestError
from transforms.examples.layouts import parse_layout, resolve_types, table_layout
from transforms.labels import ClassNames, infer_class_names
from transforms.listing import Listing
from transforms.sources.detect import MANIFEST_EXTENSIONS, MANIFEST_SOURCES, Source, open_source
from transforms.sources.spec import Skipped
from transforms.spec import BuildSpec


def open_spec_source(spec: BuildSpec) -> tuple[BuildSpec, Source]:
    """Opens the source, and settles a layout that depends on what it has.

    Raises:
      RequestError: if the source can't be opened, or does not have what the layout asks for.
    """
    source = open_source(spec.source) if spec.layout or not _may_be_table(spec) else None
    if source is None:
        source = open_source(dataclasses.replace(spec.source, needs_label=False))
        if source.has_images:
            layout = parse_layout("tfds")
            source = open_source(dataclasses.replace(spec.source, columns=layout.columns))
        elif source.column_types is None:
            raise RequestError(
                f"--input={spec.source.input[0]}: a table without images needs a layout with types in a --spec file: "
                f"layout: {{{source.columns[0]}: {{field: column.{source.columns[0]}, type: …}}}}; "
                f"its columns are {', '.join(source.columns)} (or name the --image_column)"
            )
        else:
            layout = table_layout(source.column_types)
    else:
        layout = spec.layout or parse_layout("tfds")
    if layout.needs_image and not source.has_images:
        raise RequestError(
            f"--input={spec.source.input[0]}: the layout asks for images, and no column names them; "
            f"say --image_column=, one of {', '.join(source.columns)}"
        )
    return dataclasses.replace(spec, layout=resolve_types(layout, source.column_types)), source


def check_listing(spec: BuildSpec, source: Source, listing: Listing) -> ClassNames:
    """Holds the request against what was listed, and settles the class names.

    Raises:
      RequestError: if nothing was found, or labels or splits are not what the request says.
    """
    where = f"--input={', '.join(spec.source.input)}"
    if not listing.total:
        found = "no row found" if source.name in MANIFEST_SOURCES else "no image found"
        raise RequestError(f"{where}: {found}{describe_skipped(source.skipped)}")
    if spec.source.label_pattern is not None and not any(label is not None for label in listing.labels):
        raise RequestError(
            f"--label_pattern={spec.source.label_pattern}: matches none of {listing.total} keys; "
            "it is searched in the path below --input"
        )
    if spec.num_shards is not None:
        for split, samples in listing.samples.items():
            if split and samples < spec.num_shards:
                raise RequestError(f"--num_shards={spec.num_shards}: split {split} has only {samples} samples")
    if spec.layout is None or not spec.layout.needs_label:
        return ClassNames(spec.class_names or ())
    numbers_are_indices = source.name in MANIFEST_SOURCES
    if spec.class_names is None:
        return infer_class_names(listing.labels, numbers_are_indices=numbers_are_indices)
    class_names = ClassNames(spec.class_names, numbers_are_indices)
    _check_class_names(spec, class_names, listing)
    return class_names


def describe_skipped(skipped: Skipped) -> str:
    """The files that are no samples, for a message; "" if there are none."""
    if not skipped.counts:
        return ""
    kinds = [
        f"{count} {kind} ({', '.join(skipped.examples[kind])}{', …' if count > len(skipped.examples[kind]) else ''})"
        for kind, count in skipped.counts.most_common()
    ]
    return f"; {skipped.counts.total()} other files: {', '.join(kinds)}"


def _may_be_table(spec: BuildSpec) -> bool:
    first = spec.source.input[0].lower()
    return spec.source.source in MANIFEST_SOURCES or first.endswith(MANIFEST_EXTENSIONS)


def _check_class_names(spec: BuildSpec, class_names: ClassNames, listing: Listing) -> None:
    known: set[int] = set()
    unknown: dict[Any, int] = {}
    for label, count in listing.labels.items():
        index = class_names.find(label)
        if index is not None:
            known.add(index)
        elif label is not None:
            unknown[label] = count
    unknown_samples = sum(unknown.values())
    if unknown_samples > spec.max_failures * listing.total:
        shown = ", ".join(repr(label) for label in list(unknown)[:5])
        raise RequestError(
            f"--class_names={','.join(class_names.names)}: {unknown_samples} of {listing.total} samples have a class "
            f"that is not among them: {shown}{', …' if len(unknown) > 5 else ''}"
        )
    absent = [name for index, name in enumerate(class_names.names) if index not in known]
    if absent:
        found = ", ".join(sorted({str(label) for label in listing.labels if label is not None})[:20])
        raise RequestError(
            f"--class_names: unknown class {', '.join(absent)}: no sample of --input has it; there are: {found}"
        )
