"""What names a build: its folders for temporary files, and what the manifest says of its request."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.beam_pipelines.build.work import Work
from beam_tfrecords.beam_pipelines.messages.notes import describe_request
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS
from beam_tfrecords.escaping import escape
from beam_tfrecords.transforms.identity import digest
from beam_tfrecords.transforms.libraries import library_versions
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.source_spec import Skipped
from beam_tfrecords.transforms.workspace.build_folder import Workspace

# Duplicates are dropped after the blocks, so a resumed build may drop others and keep its blocks.
_AFTER_BLOCKS = frozenset({"duplicates"})
# What is listed depends on them too.
_OF_LISTING = frozenset({"input", "fingerprint"})


def describe_facts(
    spec: BuildSpec,
    *,
    input_fingerprint: str,
    skipped: Skipped,
    notes: Sequence[str] = (),
    read_with: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the manifest will say of the request.

    Args:
      spec: the request, with its layout.
      input_fingerprint: of the listing, or of the containers that are listed.
      skipped: files that are not samples.
      notes: warnings about a valid but unusual request, one line each.
      read_with: as `Listing.read_with`.
    """
    return {
        "skipped": {
            kind: {"files": count, "examples": skipped.examples[kind]} for kind, count in sorted(skipped.counts.items())
        },
        "damaged_containers": len(skipped.damaged),
        "notes": list(map(escape, [*notes, *describe_request(spec)])),
        "read_with": read_with,
        **identify_request(spec, input_fingerprint),
    }


def identify_request(spec: BuildSpec, input_fingerprint: str) -> dict[str, Any]:
    """What decides the dataset; the manifest says it."""
    return {
        "spec": spec.to_json(),
        "input_fingerprint": input_fingerprint,
        "versions": dict(library_versions()),
        **({"map": spec.map.to_json()} if spec.map else {}),
        **({"input_function": spec.source.function.to_json()} if spec.source.function else {}),
    }


def listing_folder(spec: BuildSpec, input_fingerprint: str) -> str:
    """The folder for a listing of containers, named by the request and by all that is known before they are read."""
    return Workspace(spec.output).listing(digest(_decisive_words(spec), input_fingerprint, library_versions())).path


def build_folder(spec: BuildSpec, work: Work, listing_fingerprint: str) -> str:
    """The build's folder for temporary files, named by the listing and the objects that make its blocks of it.

    A build resumes from the blocks it finds there, so no other build may have the same name.
    """
    # The words too: what a later setting does may be in none of the objects yet.
    made_with = work.blocks, work.convert, dataclasses.replace(work.block_plan, folder="", launch="", is_new=False)
    return Workspace(spec.output).build(digest(_decisive_words(spec), listing_fingerprint, *made_with)).path


def _decisive_words(spec: BuildSpec) -> dict[str, Any]:
    return {
        name: value
        for name, value in spec.to_json().items()
        if (SETTINGS[name].decides_bytes or name in _OF_LISTING) and name not in _AFTER_BLOCKS
    }
