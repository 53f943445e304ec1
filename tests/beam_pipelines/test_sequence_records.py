"""Parsing of `SequenceExample`s, compared with TensorFlow."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.examples.parse import parse_example
from beam_tfrecords.examples.sequences import is_sequence, parse_frames
from tests import tensorflow as tf
from tests.framing import example_of, sequence_of

pytestmark = pytest.mark.tensorflow

VALUES = st.one_of(
    st.lists(st.binary(max_size=4), max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    st.lists(st.floats(width=32), max_size=3),
)
NAMES = st.text(min_size=1, max_size=3)


def _feature(values: list[Any]) -> Any:
    train = tf.train
    kinds = {bytes: ("bytes_list", train.BytesList), int: ("int64_list", train.Int64List)}
    name, kind = kinds.get(type(values[0]), ("float_list", train.FloatList)) if values else ("", None)
    return train.Feature(**({name: kind(value=values)} if kind else {}))


@given(context=st.dictionaries(NAMES, VALUES, max_size=2), lists=st.dictionaries(NAMES, VALUES, min_size=1), count=...)
def test_a_sequence_of_tensorflow_has_a_sample_for_each_frame(context, lists, count: bool):
    frames = 3 if count else 1
    train = tf.train
    sequence = train.SequenceExample(
        context=train.Features(feature={name: _feature(values) for name, values in context.items()}),
        feature_lists=train.FeatureLists(
            feature_list={
                name: train.FeatureList(feature=[_feature(values)] * frames) for name, values in lists.items()
            }
        ),
    )
    data = sequence.SerializeToString()
    assert is_sequence(data)
    whole = train.Example(features=train.Features(feature={n: _feature(v) for n, v in {**context, **lists}.items()}))
    expected = parse_example(whole.SerializeToString())
    found = parse_frames(data)
    assert repr([dict(sorted(frame.items())) for frame in found]) == repr([expected] * frames)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_sequence_raise_one_error(data):
    for one in (data, sequence_of({"a": 1}, b=[1, 2])[: len(data)]):
        is_sequence(one)
        with contextlib.suppress(ValueError):
            parse_frames(one)


def test_an_example_is_no_sequence():
    assert not is_sequence(example_of({"a": 1}))
    assert is_sequence(sequence_of({}, a=[1]))
    assert not is_sequence(b"\xff\xff")
