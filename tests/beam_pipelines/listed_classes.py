"""The classes of an input, and those of its samples, as a build would find them; nothing is converted."""

from __future__ import annotations

import tempfile
from typing import Any, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.user_functions import find_functions
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.transforms.listing.listing import read_refs


class ListedClasses(NamedTuple):
    """What a build would find.

    Attributes:
      names: in index order.
      of_samples: key -> the names of the classes of a sample or its objects; None for an unknown one.
      notes: on the input.
      skipped: kind -> number of samples.
    """

    names: tuple[str, ...]
    of_samples: dict[str, list[str | None]]
    notes: list[str]
    skipped: dict[str, int]


def list_classes_of(**settings: Any) -> ListedClasses:
    """Lists an input with the settings of a request."""
    spec = read_build_spec({"output": "/nowhere/out", "image_size": 8, **settings})
    with storage.using(spec.storage_options()), tempfile.TemporaryDirectory() as folder:
        spec, source = open_spec_source(find_functions(spec))
        listed = list_input(spec, source, folder, max_file_size=-1)
        classes = check_listing(spec, listed.source, listed.listing, listed.tally)
        found = {
            ref.key: [
                None if (index := classes.find(label)) is None else classes.names[index]
                for label in ref.labels
                if label is not None
            ]
            for ref in read_refs(listed.listing)
        }
    return ListedClasses(classes.names, found, listed.tally.notes, dict(listed.tally.counts))
