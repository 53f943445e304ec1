"""The identity of a build: the names of its temporary folders, and the request as the manifest records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords.beam_pipelines.build.checks.settings import describe_request
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.contents import CLASSES
from beam_tfrecords.transforms.identity import digest
from beam_tfrecords.transforms.labels import ClassNames, numbers_of
from beam_tfrecords.transforms.libraries import library_versions
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.request.build_spec import BuildSpec, publish_settings
from beam_tfrecords.transforms.sources.description import STRUCTURE, Description
from beam_tfrecords.transforms.sources.meaning.ledger import (
    Entry,
    find_moved,
    find_renumbered,
    find_unread,
    find_unstored,
    find_unused,
    number_labels,
)
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.workspace.build_folder import Workspace

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

# Duplicates are dropped after the blocks are written, so a resumed build may change this and keep its blocks.
_AFTER_BLOCKS = frozenset({"duplicates"})
# Settings that do not affect the bytes, but determine which samples are listed.
_OF_LISTING = frozenset({"input", "fingerprint"})
# Settings of decisions about listed samples, and of what follows, which no reader of folders looks at. Folders that
# `splits` names are an exception.
_OF_DECISIONS = frozenset({"splits", "stratify", "seed", "limit", "classes", "class_names"})


def describe_metadata(
    spec: BuildSpec,
    *,
    input_fingerprint: str,
    tally: Tally,
    ledger: Sequence[Entry],
    read_with: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Returns the manifest entries that describe the request.

    Args:
      spec: the request, with its layout.
      input_fingerprint: fingerprint of the listing, or of the listed containers.
      tally: counts of the listing.
      ledger: fields of the input that are not stored, or under another number.
      read_with: as `ListedInput.read_with`.
    """
    paths = spec.published_paths
    return {
        "skipped": {
            kind: {"files": count, "examples": tally.examples[kind]} for kind, count in sorted(tally.counts.items())
        },
        "damaged_containers": len(tally.damaged),
        "notes": [paths.publish_text(escape(note)) for note in [*tally.notes, *describe_request(spec)]],
        "ledger": [entry.to_json() for entry in ledger],
        "read_with": read_with,
        **identify_request(spec, input_fingerprint),
    }


def identify_request(spec: BuildSpec, input_fingerprint: str) -> dict[str, Any]:
    """Returns everything that determines the dataset; the manifest records it."""
    return {
        "spec": publish_settings(spec.to_json()),
        "input_fingerprint": input_fingerprint,
        "versions": dict(library_versions()),
        **({"map": spec.map.to_json()} if spec.map else {}),
        **({"input_function": spec.input_function.to_json()} if spec.input_function else {}),
    }


def listing_folder(spec: BuildSpec, input_fingerprint: str, *, by_folders: bool) -> str:
    """Returns the folder for a listing of containers, named by everything that is known before they are read.

    Args:
      spec: the request, with its layout.
      input_fingerprint: fingerprint of the containers.
      by_folders: whether samples get labels and splits from folders, after they are listed.
    """
    settings = _decisive_settings(spec)
    if by_folders and spec.splits.folders is None:
        settings = {name: value for name, value in settings.items() if name not in _OF_DECISIONS}
    return Workspace(spec.output).listing(digest(settings, input_fingerprint, library_versions())).path


def build_folder(spec: BuildSpec, listing_fingerprint: str, plan: Any) -> str:
    """Returns the build's temporary folder, named by a digest of the listing and of the plan that makes the blocks.

    A build resumes from the blocks in this folder, so different builds need different names.
    """
    # The settings are included because a future setting may not be part of the plan.
    return Workspace(spec.output).build(digest(_decisive_settings(spec), listing_fingerprint, plan)).path


def _decisive_settings(spec: BuildSpec) -> dict[str, Any]:
    decisive = {
        name: value
        for name, value in spec.to_json().items()
        if (SETTINGS[name].decides_bytes or name in _OF_LISTING) and name not in _AFTER_BLOCKS
    }
    # A spec has the features of a layout alone.
    return {**decisive, "keeps_records": True} if spec.layout and spec.layout.keeps_records else decisive


def make_ledger(
    spec: BuildSpec,
    source: Source,
    listing: Listing,
    tally: Tally,
    classes: ClassNames,
    heads: Mapping[str, ClassNames],
) -> tuple[Entry, ...]:
    """Returns the ledger of a listed input.

    Args:
      spec: the request, with its layout.
      source: the listed source.
      listing: its samples.
      tally: files that are not samples, and the fields that the source has seen.
      classes: the classes of the dataset.
      heads: feature with classes of its own -> these classes.
    """
    layout, seen = spec.layout, source.description
    if layout is None or layout.keeps_records:
        return ()
    uses = seen.uses
    if spec.map is not None:
        # The function receives everything that the source reads.
        uses = dict.fromkeys(uses, STRUCTURE)
    found = [*find_unstored(tally.fields, uses, layout)]
    used = _used_columns(spec, seen)
    if seen.table is not None and not spec.needs.takes_all:
        found += find_unused(seen.table, used, seen.other_images, total=listing.total)
        found += find_unread(seen.table, used, spec.required)
        used |= {*seen.table.columns}
    for table in () if spec.needs.takes_all else seen.other_tables:
        found += find_unread(table, used, spec.required)
        found += find_unused(table, used)
        used |= {*table.columns}
    if spec.map is None:
        named = spec.class_names
        of_list: dict[Scalar, int] = dict(zip(named.names, named.numbers, strict=False)) if named is not None else {}
        by_file = seen.labels.by_file or {"": {} if of_list else number_labels(listing.labels)}
        numbers = {path: {**of_file, **of_list} for path, of_file in by_file.items()}
        records = seen.records.layout if seen.records else None
        found += find_renumbered(numbers, classes, layout, records)
        stored = {one.column: one.class_names for one in records.heads.values()} if records else {}
        for name, found_classes in heads.items():
            column = layout.heads[name].column or ""
            labels: Mapping[Scalar, int] = listing.column_labels.get(column, {})
            of_column = numbers_of(stored[column]) if column in stored else number_labels(labels)
            found += find_moved(name, of_column, found_classes, remedy="class_names of a feature decides its numbers")
    return tuple(found)


def _used_columns(spec: BuildSpec, seen: Description) -> set[str | None]:
    """Returns the columns of the source that the layout stores, or that decide what is stored."""
    needs = spec.needs
    is_label = CLASSES & needs.contents or seen.label_column in (needs.columns or ())
    joined = seen.join.cells.needed if seen.join is not None else ()
    # Records have the size and the format of their image beside it, and a layout stores those of the stored image.
    features = spec.stored.features if seen.unit == "record" else ()
    facts = [one.name for one in features if one.field.startswith("image.") and not one.holds_image]
    return {name for name in (*seen.used, *joined, *facts) if is_label or name != seen.label_column}
