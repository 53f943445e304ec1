"""What a program that calls this package learns from a refusal."""

from __future__ import annotations

import copy
import pickle

import pytest

from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.storage import SchemeError


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("`output` is missing", ["output"]),
        ("`image_column=a`: t.csv has no such column; name one with `image_column`", ["image_column"]),
        (
            "`splits` has fractions, but `input=a b/t.csv` says them; use `split_column=`",
            ["splits", "input", "split_column"],
        ),
        ("--save=x.gif: expected another name, not --image", ["save"]),
        ("set `taskmanager.memory: 1` and use `ulimit -n 10`", []),
        ("there is no such command", []),
    ],
)
def test_the_settings_of_a_refusal_are_those_that_its_message_quotes(message, settings):
    assert list(RequestError(message, [Suggestion("other", {"seed": 1})], code="x").settings) == settings


@pytest.mark.parametrize("make", [pickle.loads, copy.copy], ids=["pickled", "copied"])
@pytest.mark.parametrize("kind", [RequestError, SchemeError])
def test_a_refusal_of_another_process_is_the_same(kind, make):
    error = kind("`seed=x`: no number", [Suggestion("one", {"seed": 1})], code="invalid_value", traceback="Traceback")
    same = make(pickle.dumps(error) if make is pickle.loads else error)
    assert type(same) is kind
    assert vars(same) == vars(error)
    assert str(same) == str(error)
