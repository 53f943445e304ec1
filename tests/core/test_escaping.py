"""Text from inputs is safe wherever it is shown: in messages, on a terminal, in JSON."""

from __future__ import annotations

import contextlib
import io
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError, FailureReason, LimitError, Reading, RequestError, SampleError, Stage
from beam_tfrecords.escaping import escape, write_json
from beam_tfrecords.transforms.verifying.checks import Finding

# Every character that controls, but the two that no file name has and the tags of flags.
_LETTERS = map(chr, [*range(1, 0xD800), *range(0xE000, 0x10000)])
EVERY = "".join(letter for letter in _LETTERS if escape(letter) != letter)
TEXTS = st.text(st.sampled_from(f"a {EVERY}") | st.characters(), max_size=30)


def is_shown_safely(text: str) -> bool:
    return all(escape(line) == line for line in text.split("\n"))


@pytest.mark.parametrize(
    "text", ["写真", "Äpfel & Birnen", "\u0645\u06cc\u200c\u062e", "👩\u200d🚀", "a\u3000b", "C:\\new"]
)
def test_ordinary_text_is_left_as_it_is(text):
    assert escape(text) == text


def test_every_character_that_controls_is_escaped():
    for number in (*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x2028, 0x202E, 0x2066, 0xFEFF, 0xDCFF):
        escaped = escape(f"a{chr(number)}b")
        assert escaped.isascii(), hex(number)
        assert escaped.isprintable(), hex(number)


@given(TEXTS)
def test_every_text_in_a_message_is_escaped(text):
    reading = Reading(text, {"class_names": [text]})
    request = RequestError(text, [reading], code="x")
    sample = SampleError(Stage.READ, FailureReason.UNREADABLE, text)
    errors = [BuildError(text), LimitError(text), request, sample, sample.about(text), storage.StorageError(text)]
    errors += [storage.ChangedError(text), SampleError.internal(Stage.READ, ValueError(text))]
    shown = [*map(str, errors), request.message, sample.detail, str(Finding(text, text, 1))]
    assert all(escape(one) == one for one in shown)
    assert list(map(str, map(pickle.loads, map(pickle.dumps, errors)))) == list(map(str, errors))


@given(TEXTS)
def test_an_escaped_text_stays_and_json_gives_the_text_back(text):
    assert escape(escape(text)) == escape(text)
    for indent in (None, 2):
        written = write_json({text: [text]}, indent=indent)
        assert is_shown_safely(written)
        assert json.loads(written) == {text: [text]}


@given(TEXTS)
def test_every_text_is_a_line_of_its_own_on_the_terminal(text):
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        show(text, text)
    assert stream.getvalue() == f"{escape(text)}\n" * 2
