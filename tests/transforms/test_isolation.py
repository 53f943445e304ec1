"""Crashes and hangs cost one sample; the processes are real."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.hostile import Hostile, echo
from transforms.errors import FailureReason, SampleError, Stage
from transforms.isolation import IsolatedConverter
from transforms.values import SampleRef

OK, CRASH, HANG, BUG = (SampleRef(key, None) for key in ("ok", "crash", "hang", "bug"))


@pytest.fixture
def isolated():
    converter = IsolatedConverter(Hostile(echo, crash="crash", hang="hang", bug="bug"), seconds=0.5)
    yield converter
    converter.close()


def test_what_is_converted_in_the_child_is_what_it_converts_to(isolated):
    assert isolated(OK, b"x" * 10**6) == echo(OK, b"x" * 10**6)


def test_a_decoder_that_crashes_costs_its_sample_and_the_next_one_is_converted(isolated):
    with pytest.raises(SampleError, match="SIGSEGV") as caught:
        isolated(CRASH, b"")
    assert caught.value.reason is FailureReason.DECODER_CRASH
    assert isolated(OK, b"next").example == b"next"


def test_a_decoder_that_hangs_costs_its_sample_and_the_next_one_is_converted(isolated):
    with pytest.raises(SampleError, match=r"0\.5 seconds") as caught:
        isolated(HANG, b"")
    assert caught.value.reason is FailureReason.DECODE_TIMEOUT
    assert isolated(OK, b"next").example == b"next"


def test_a_refused_sample_is_refused_as_without_the_child():
    converter = IsolatedConverter(_refuse, seconds=5)
    with pytest.raises(SampleError) as caught:
        converter(OK, b"")
    assert (caught.value.reason, caught.value.detail) == (FailureReason.CORRUPT, "as asked")
    converter.close()


def test_a_bug_is_raised_in_the_parent(isolated):
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a bug"):
        isolated(BUG, b"")


def test_the_time_limit_ends_a_process_that_never_gives_the_interpreter_back():
    # re.match holds the interpreter for years on this pattern: no thread of Python's could intervene.
    code = (
        "import re\n"
        "from transforms.isolation import TimeLimit\n"
        "with TimeLimit(0.3).watch():\n"
        "    pass\n"
        "with TimeLimit(0.3).watch():\n"
        "    re.match('(a+)+b', 'a' * 64)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], timeout=20, check=False)
    assert ended.returncode == -14  # SIGALRM


def _refuse(ref, data):
    raise SampleError(Stage.DECODE, FailureReason.CORRUPT, "as asked")
