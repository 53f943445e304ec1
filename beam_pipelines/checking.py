"""Checks the request against what its output and its source contain, before anything starts."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from transforms import storage
from transforms.build_spec import BuildSpec
from transforms.dataset import SUCCESS
from transforms.errors import RequestError
from transforms.examples.layouts import parse_layout, resolve_types, table_layout
from transforms.labels import ClassNames, infer_class_names
from transforms.refs import Scalar
from transforms.sources.opening import open_source
from transforms.sources.source import Source
from transforms.sources.source_spec import Skipped

if TYPE_CHECKING:
    from transforms.listing import Listing


def check_output(spec: BuildSpec) -> None:
    """Refuses an output that would damage what is there.

    Raises:
      RequestError: the output holds a finished dataset that may not be replaced, is a file, or lies inside the
        input.
    """
    try:
        is_finished = storage.exists(storage.join(spec.output, SUCCESS))
    except (OSError, storage.SchemeError) as error:
        raise RequestError(f"`output={spec.output}`: cannot be reached: {error}") from error
    if is_finished and not spec.overwrite:
        raise RequestError(
            f"`output={spec.output}`: holds a finished dataset; say `overwrite` to replace it, or choose another folder"
        )
    if storage.is_file(spec.output):
        raise RequestError(f"`output={spec.output}`: is a file; expected a folder")
    for root in spec.source.input:
        if f"{spec.output}/".startswith(root.rstrip("/") + "/") and storage.is_folder(root):
            raise RequestError(
                f"`output={spec.output}`: lies inside `input={root}`, so the next build would read it as input; "
                "choose a folder outside"
            )


def open_spec_source(spec: BuildSpec) -> tuple[BuildSpec, Source]:
    """Opens the source, and resolves a layout that depends on what the source contains.

    Raises:
      RequestError: the source cannot be opened, or does not contain what the layout asks for.
    """
    # Without a layout, a table without images gives its columns, and needs no label for that.
    needs_label = spec.layout is not None and spec.layout.needs_label
    source = open_source(dataclasses.replace(spec.source, needs_label=needs_label))
    layout = spec.layout
    if layout is None and not source.has_images:
        if source.column_types is None:
            raise RequestError(
                f"`input={spec.source.input[0]}`: a table without images needs a layout with types in a spec file: "
                f"layout: {{{source.columns[0]}: {{field: column.{source.columns[0]}, type: …}}}}; "
                f"its columns are {', '.join(source.columns)} (or name the `image_column`)"
            )
        layout = table_layout(source.column_types)
    elif layout is None:
        layout = parse_layout("tfds")
        source = open_source(dataclasses.replace(spec.source, columns=layout.columns, needs_label=True))
    if layout.needs_image and not source.has_images:
        raise RequestError(
            f"`input={spec.source.input[0]}`: the layout asks for images, and no column names them; "
            f"name it with `image_column`, one of {', '.join(source.columns)}"
        )
    return dataclasses.replace(spec, layout=resolve_types(layout, source.column_types)), source


def check_listing(spec: BuildSpec, source: Source, listing: Listing, skipped: Skipped) -> ClassNames:
    """Checks the request against the listed samples, and resolves the class names.

    Raises:
      RequestError: there are no samples, or their labels or splits do not match the request.
    """
    where = f"`input={', '.join(spec.source.input)}`"
    if not listing.total:
        raise RequestError(f"{where}: no {source.unit} found{_describe_skipped(skipped)}")
    if spec.source.label_pattern is not None and not any(label is not None for label in listing.labels):
        raise RequestError(
            f"`label_pattern={spec.source.label_pattern}`: matches none of {listing.total} keys; "
            "it is searched in the path below `input`"
        )
    if spec.num_shards is not None:
        for split, samples in listing.samples.items():
            if split and samples < spec.num_shards:
                raise RequestError(f"`num_shards={spec.num_shards}`: split {split} has only {samples} samples")
    if spec.layout is None or not spec.layout.needs_label:
        return ClassNames(spec.class_names or ())
    if spec.class_names is None:
        return infer_class_names(listing.labels, numbers_are_indices=source.labels_may_be_indices)
    class_names = ClassNames(spec.class_names, source.labels_may_be_indices)
    unknown: dict[Scalar, int] = {
        label: count for label, count in listing.labels.items() if label is not None and class_names.find(label) is None
    }
    samples = sum(unknown.values())
    if samples > spec.max_failures * listing.total:
        shown = ", ".join(repr(label) for label in list(unknown)[:5])
        raise RequestError(
            f"`class_names={','.join(class_names.names)}`: {samples} of {listing.total} samples have a class "
            f"that is not among them: {shown}{', …' if len(unknown) > 5 else ''}"
        )
    return class_names


def _describe_skipped(skipped: Skipped) -> str:
    """The skipped files, for a message; "" if there are none."""
    if not skipped.counts:
        return ""
    kinds = [
        f"{count} {kind} ({', '.join(skipped.examples[kind])}{', …' if count > len(skipped.examples[kind]) else ''})"
        for kind, count in skipped.counts.most_common()
    ]
    return f"; {skipped.counts.total()} other files: {', '.join(kinds)}"
