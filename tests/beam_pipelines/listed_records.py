"""The records that a command line lists, and the commands that a refusal offers."""

from __future__ import annotations

import dataclasses
import io
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from PIL import Image

from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.listing.trial import trying_suggestions
from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import read_request
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.labels import UNLABELLED, ClassNames
from beam_tfrecords.transforms.listing.listing import read_refs
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec

# split -> label -> samples; the label of an image without one is "".
Records: TypeAlias = Mapping[str, Mapping[str, int]]


def _picture() -> bytes:
    file = io.BytesIO()
    # Grey and exact, so that it may be a mask.
    Image.new("RGB", (8, 8), "grey").save(file, "PNG")
    return file.getvalue()


PICTURE = _picture()


@dataclasses.dataclass(frozen=True)
class Listed:
    """What a command line lists, as a build does before it starts.

    Attributes:
      spec: the request.
      notes: what the summary says.
      classes: the class names.
      refs: the samples.
    """

    spec: BuildSpec
    notes: list[str]
    classes: ClassNames
    refs: list[SampleRef]


def list_samples(argv: list[str], folder: Path) -> Listed:
    """Lists the samples of a command line, with the files of the listing in a folder."""
    spec = read_request(parse_arguments(argv).raw_values)
    with trying_suggestions(spec):
        spec, source = open_spec_source(spec)
        folder.mkdir(exist_ok=True)
        listed = list_input(spec, source, str(folder), max_file_size=-1)
        classes = check_listing(spec, listed.source, listed.listing, listed.tally)
    refs = [*read_refs(listed.listing)]
    assert not any(ref.failure for ref in refs), refs
    return Listed(spec, listed.tally.notes, classes, refs)


def read(argv: list[str], folder: Path) -> tuple[Records, list[str]]:
    """The records that a command line lists, and the notes."""
    listed = list_samples(argv, folder)
    records: dict[str, Counter[str]] = {}
    for ref in listed.refs:
        label = ref.label if Content.LABEL in listed.spec.layout.required else ""
        assert label is not None, ref
        records.setdefault(ref.split, Counter())["" if label == UNLABELLED else str(label)] += 1
    return records, listed.notes


def commands_of(lines: list[str]) -> list[list[str]]:
    """The arguments of the commands in a refusal, as a shell reads them."""
    commands = [shlex.split(line) for line in lines if line.startswith("    beam-tfrecords ")]
    assert all(command[:2] == ["beam-tfrecords", "convert"] for command in commands)
    return [command[2:] for command in commands]


def in_train(**labels: int) -> Records:
    """Returns records of one split."""
    return {"train": labels}


def unlabelled(**splits: int) -> Records:
    """Returns images without labels."""
    return {split: {"": count} for split, count in splits.items()}
