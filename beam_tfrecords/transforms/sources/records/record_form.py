"""The forms of records: an `Example`, or a `SequenceExample` whose frames are samples. Pure functions."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from beam_tfrecords.examples.parse import ParsedExample, parse_example
from beam_tfrecords.examples.sequences import is_sequence, parse_frames
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, Value


def read_cell(feature: tuple[str, list[Any]] | None) -> Value:
    """Converts a feature to a cell; returns None if it has no value."""
    values = feature[1] if feature else []
    return values[0] if len(values) == 1 else values or None


class RecordForm(enum.Enum):
    """The form of a record.

    Attributes:
      EXAMPLE: an example, which is a sample.
      FRAMES: a sequence, each of whose frames is a sample.
      BYTES: an example or a sequence that is stored as it is; its features are those of the example or of the context.
    """

    EXAMPLE = enum.auto()
    FRAMES = enum.auto()
    BYTES = enum.auto()

    def parse(self, data: bytes) -> Sequence[ParsedExample]:
        """Returns the features of each sample of a record.

        Raises:
          ValueError: the record has another form.
        """
        if self is RecordForm.BYTES:
            return [parse_example(data)]
        if is_sequence(data) != (self is RecordForm.FRAMES):
            raise ValueError("it is a SequenceExample" if self is RecordForm.EXAMPLE else "it is not a SequenceExample")
        frames = parse_frames(data) if self is RecordForm.FRAMES else [parse_example(data)]
        if not frames:
            raise ValueError("it has no frames")
        return frames

    def name_frames(self, refs: Sequence[SampleRef], record: str) -> Sequence[SampleRef]:
        """Returns the samples of a record, each with a key of its own; frames of a record are in one group.

        Args:
          refs: the samples.
          record: name of the group if the frames have different keys, such as the paths of their images.
        """
        if self is not RecordForm.FRAMES:
            return refs
        keys = {ref.key for ref in refs if ref.failure is None}
        group = keys.pop() if len(keys) == 1 else record
        return [
            dataclasses.replace(ref, key=f"{ref.key}/{frame:06d}", group=ref.group or group)
            for frame, ref in enumerate(refs)
        ]
