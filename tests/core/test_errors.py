"""What a program that calls this package learns from a refusal."""

from __future__ import annotations

import copy
import pickle

import pytest

from beam_tfrecords import extras
from beam_tfrecords.errors import Reading, RequestError, describe_exception, without_type
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
    assert list(RequestError(message, [Reading("other", {"seed": 1})], code="x").settings) == settings


@pytest.mark.parametrize("make", [pickle.loads, copy.copy], ids=["pickled", "copied"])
@pytest.mark.parametrize("kind", [RequestError, SchemeError])
def test_a_refusal_of_another_process_is_the_same(kind, make):
    error = kind("`seed=x`: no number", [Reading("one", {"seed": 1})], code="invalid_value", traceback="Traceback")
    same = make(pickle.dumps(error) if make is pickle.loads else error)
    assert type(same) is kind
    assert vars(same) == vars(error)
    assert str(same) == str(error)


@pytest.mark.parametrize(
    ("error", "described"),
    [
        (ValueError("two\nlines"), "two lines"),
        (KeyError("image"), "key 'image'"),
        (TimeoutError(), "timeout"),
        (ConnectionResetError(), "connection reset"),
        (EOFError("short"), "eof short"),
        (Exception(), "unknown error"),
        (RuntimeError("java.io.IOException: no space left"), "no space left"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_an_exception_of_a_library_is_described_without_its_type(error, described):
    assert describe_exception(error) == described


@pytest.mark.parametrize(
    ("line", "described"),
    [
        ("java.util.concurrent.TimeoutException", "timeout"),
        ("java.lang.Exception: The heartbeat timed out", "The heartbeat timed out"),
        ("java.lang.OutOfMemoryError: Java heap space", "Java heap space"),
        ("a.b.Outer$InnerException: java.lang.RuntimeException: the worker was lost", "the worker was lost"),
        ("AttributeError: 'int' object has no attribute 'x'", "'int' object has no attribute 'x'"),
        ("photos/cat.jpg: it has no size", "photos/cat.jpg: it has no size"),
    ],
)
def test_the_last_line_of_a_trace_has_no_type(line, described):
    assert without_type(line) == described


def test_a_hint_names_the_index_from_the_release_on(monkeypatch):
    assert extras.install_hint("gcp") == "pip install '.[gcp]' in the clone"
    monkeypatch.setattr(extras, "RELEASED_AS", "beam-tfrecords")
    assert extras.install_hint("gcp") == "pip install 'beam-tfrecords[gcp]'"
    page = "In a clone of the repository:\n\n    pip install '.[tensorflow]'\n"
    assert extras.install_release(page) == "\n\n    pip install 'beam-tfrecords[tensorflow]'\n"
