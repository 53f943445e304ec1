"""JSON whose numbers are what they say."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.sources.json_text import read_json


@given(value=st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()), st.lists))
def test_what_json_can_say_is_read_as_it_is(value):
    assert repr(read_json(json.dumps(value))) == repr(value)


@given(exponent=st.integers(309, 9999), sign=st.sampled_from(["", "-"]))
def test_a_number_beyond_a_float_is_refused_and_infinity_is_not(exponent, sign):
    with pytest.raises(ValueError, match="beyond the range of a 64-bit float"):
        read_json(f'{{"x": [{sign}1e{exponent}]}}')
    assert math.isinf(read_json(f"{sign}Infinity"))
