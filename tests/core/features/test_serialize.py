"""Examples without TensorFlow, held against TensorFlow's own message."""

from __future__ import annotations

import decimal
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.features.serialize import serialize_examples
from tests import tensorflow as tf
from tests.core.converting import serialize_example
from tests.each import each

pytestmark = pytest.mark.tensorflow

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32)


def one(kind: str, value) -> tf.train.Feature:
    data = serialize_example(
        Layout((Feature("x", "column.x", kind, several=isinstance(value, list)),)), {"column.x": value}
    )
    return tf.train.Example.FromString(data).features.feature["x"]


def refusal(kind: str, value) -> SampleError:
    with pytest.raises(SampleError) as caught:
        one(kind, value)
    assert "'x'" in caught.value.detail
    return caught.value


@given(
    st.dictionaries(
        st.text(),
        st.one_of(
            st.tuples(st.just("int64"), st.lists(INT64)),
            st.tuples(st.just("float"), st.lists(FLOAT32)),
            st.tuples(st.just("bytes"), st.lists(st.binary())),
        ),
        min_size=1,
    )
)
def test_bytes_are_those_of_tensorflows_deterministic_serialization(features):
    layout = Layout(
        tuple(Feature(name, f"column.{name}", kind, several=True) for name, (kind, _) in sorted(features.items()))
    )
    expected = tf.train.Example()
    for name, (kind, values) in features.items():
        message = expected.features.feature[name]
        {"int64": message.int64_list, "float": message.float_list, "bytes": message.bytes_list}[kind].value.extend(
            values
        )
        if not values:
            {"int64": message.int64_list, "float": message.float_list, "bytes": message.bytes_list}[kind].SetInParent()
    ours = serialize_example(layout, {f"column.{name}": values for name, (_, values) in features.items()})
    assert ours == expected.SerializeToString(deterministic=True)


CELLS = {
    "int64": st.one_of(INT64, st.booleans(), INT64.map(str), st.just([7])),
    "float": st.one_of(st.floats(), st.integers(), FLOAT32.map(str), st.just([0.5])),
    "bytes": st.one_of(st.text(), st.binary(), st.just([b"one"])),
}
ODD_CELLS = st.sampled_from([None, "", "ü", 2**63, 1e39, "\udc80", [], [1, 2], ["a", "b"], 1.5])


@given(st.data())
def test_many_examples_have_the_bytes_that_each_has_alone(data):
    names = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4, unique=True)
    kinds = {name: data.draw(st.sampled_from(list(CELLS))) for name in data.draw(names)}
    layout = Layout(
        tuple(Feature(name, f"column.{name}", kind, several=data.draw(st.booleans())) for name, kind in kinds.items())
    )
    count = data.draw(st.integers(1, 5))
    odd = data.draw(st.booleans())
    columns = [
        data.draw(st.lists(st.one_of(CELLS[kind], ODD_CELLS) if odd else CELLS[kind], min_size=count, max_size=count))
        for kind in kinds.values()
    ]
    # Labels are lists of one.
    columns = [[[value] for value in column] if data.draw(st.booleans()) else column for column in columns]
    alone: list[bytes | str] = []
    for row in zip(*columns, strict=True):
        try:
            alone.append(serialize_example(layout, dict(zip((f"column.{name}" for name in kinds), row, strict=True))))
        except SampleError as error:
            alone.append(error.detail)
    try:
        together = serialize_examples(layout, columns)
    except SampleError as error:
        together = [error.detail]
        alone = [one for one in alone if one == error.detail][:1]
    assert together == alone


def test_a_name_comes_behind_the_names_that_go_on_behind_it_as_protobuf_has_always_stored_them():
    names = ["image", "image/height", "imagf", "images", "im"]
    example = tf.train.Example()
    for name in names:
        example.features.feature[name].int64_list.value.append(1)
    layout = Layout(tuple(Feature(name, "column.x", "int64") for name in sorted(names)))
    ours = serialize_example(layout, {"column.x": 1})
    assert sorted(names, key=lambda name: ours.index(bytes([len(name)]) + name.encode() + b"\x12")) == [
        "image/height",
        "images",
        "image",
        "imagf",
        "im",
    ]
    assert ours == example.SerializeToString(deterministic=True)


def test_of_two_values_that_do_not_fit_the_one_whose_name_comes_first_is_named():
    layout = Layout((Feature("x", "column.x", "int64"), Feature("x2", "column.x", "int64")))
    with pytest.raises(SampleError, match="'x'"):
        serialize_example(layout, {"column.x": "no number"})


FITTING = {
    "int64": {True: 1, False: 0, -5: -5, "7": 7, " 7 ": 7, "+7": 7, "True": 1, "false": 0, 2**63 - 1: 2**63 - 1},
    "float": {2: 2.0, 0.5: 0.5, "1e3": 1000.0, "-inf": float("-inf"), True: 1.0},
    "bytes": {"é": "é".encode(), b"\xff": b"\xff", "": b""},
}
OTHERS = {
    "int64": [1.0, "1.0", "", None, "x", 2**63, -(2**63) - 1, b"1", "1" * 40, "yes"],
    "float": ["", None, "x", 1e39, b"1"],
    "bytes": [None, 1, 1.5, True, "\ud800"],
}


@each("kind, value, expected", [(kind, *pair) for kind, pairs in FITTING.items() for pair in pairs.items()])
def test_what_fits_a_feature(kind, value, expected):
    assert list(getattr(one(kind, value), f"{kind}_list").value) == [expected]


@each("kind, value", [(kind, value) for kind, values in OTHERS.items() for value in values])
def test_what_does_not_fit_a_feature(kind, value):
    reason = FailureReason.VALUE_MISSING if value in ("", None) else FailureReason.WRONG_TYPE
    assert refusal(kind, value).reason is reason


def test_several_values_for_a_field_that_has_one_are_refused():
    layout = Layout((Feature("label", "label.index", "int64"),))
    with pytest.raises(SampleError, match="2 values"):
        serialize_example(layout, {"label.index": [1, 2]})


def test_a_long_value_is_cut_in_the_detail():
    assert len(refusal("int64", "9" * 10_000).detail) < 200


_DIGITS = st.text("0123456789", min_size=1, max_size=400)
_NUMBERS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-", "+"]),
    _DIGITS,
    st.one_of(st.just(""), _DIGITS.map(".{}".format)),
    st.one_of(st.just(""), st.integers(-500, 500).map("e{}".format)),
)
_SPELLED = {"inf": math.inf, "Infinity": math.inf, "-INF": -math.inf, "+inf": math.inf, "nan": math.nan}


@given(text=st.one_of(_NUMBERS, st.sampled_from(["1e400", "-1e39", "3.5e38", "9" * 310, *_SPELLED])))
def test_a_number_as_text_is_stored_as_what_it_says_or_rejected(text):
    layout = Layout((Feature("x", "column.x", "float"),))
    number = None if text in _SPELLED else decimal.Decimal(text)
    if number is not None and abs(number) > decimal.Decimal("3.4028234663852886e38"):
        assert refusal("float", text).reason is FailureReason.WRONG_TYPE
        with pytest.raises(SampleError):
            serialize_examples(layout, [["1", text]])
        return
    expected = struct.unpack("<f", struct.pack("<f", _SPELLED.get(text, 0) if number is None else float(text)))[0]
    (alone,) = one("float", text).float_list.value
    _, beside = serialize_examples(layout, [["1", text]])
    (found,) = tf.train.Example.FromString(beside).features.feature["x"].float_list.value
    assert (alone == found == expected) or (math.isnan(alone) and math.isnan(found) and text == "nan")


@given(text=_NUMBERS)
def test_an_integer_as_text_is_stored_as_what_it_says_or_rejected(text):
    digits = text.lstrip("+-")
    if digits.isdigit() and len(digits) < 32 and -(2**63) <= int(text) < 2**63:
        assert list(one("int64", text).int64_list.value) == [int(text)]
    else:
        assert refusal("int64", text).reason is FailureReason.WRONG_TYPE
