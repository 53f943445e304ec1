"""Parses serialized `tf.train.SequenceExample`s, without TensorFlow. Pure functions.

    message SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
    message FeatureLists { map<string, FeatureList> feature_list = 1; }
    message FeatureList { repeated Feature feature = 1; }

An `Example` is `{ Features features = 1; }`, so a parser of examples takes a sequence for its context alone
(tensorflow/core/example/example.proto).
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import DecodeError

from beam_tfrecords.examples.parse import ParsedExample, parse_example, parse_feature
from beam_tfrecords.examples.wire import varint
from beam_tfrecords.examples.wire_fields import read_fields

_CONTEXT, _LISTS = 1, 2
_KEY, _VALUE = 1, 2


def is_sequence(data: bytes) -> bool:
    """Whether serialized data is a `SequenceExample` with lists of features, and not an `Example`."""
    try:
        return any(number == _LISTS for number, _ in _parts(data))
    except ValueError:
        return False


def parse_frames(data: bytes) -> list[ParsedExample]:
    """Parses a sequence as one example for each frame: the features of the frame, and those of the context.

    Raises:
      ValueError: the data is not a sequence, or its lists have different numbers of frames.
    """
    context: ParsedExample = {}
    lists: dict[str, list[bytes]] = {}
    for number, part in _parts(data):
        if number == _CONTEXT:
            context = {**context, **parse_example(b"\x0a" + varint(len(part)) + part)}
        elif number == _LISTS:
            for _, entry in _parts(part):
                fields = dict(_parts(entry))
                name = fields.get(_KEY, b"").decode()
                lists[name] = [feature for _, feature in _parts(fields.get(_VALUE, b""))]
    lengths = sorted({*map(len, lists.values())})
    if len(lengths) > 1:
        shown = ", ".join(f"{name} has {len(found)}" for name, found in sorted(lists.items()))
        raise ValueError(f"its lists have different numbers of frames: {shown}")
    try:
        frames = zip(*([parse_feature(one) for one in lists[name]] for name in lists), strict=True)
    except DecodeError as error:
        raise ValueError(f"not a tf.train.SequenceExample: {error}") from error
    return [{**context, **dict(zip(lists, frame, strict=True))} for frame in frames]


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the number and the bytes of the fields with a length; skips others.

    Raises:
      ValueError: the data is not a message.
    """
    return ((number, value) for number, value in read_fields(data) if isinstance(value, bytes))
