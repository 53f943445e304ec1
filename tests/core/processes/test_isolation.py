"""A decoder that crashes or hangs: it costs one sample. The processes are real."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.transforms.blocks.guard import convert_sample
from beam_tfrecords.transforms.processes.isolation import isolated
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, SampleRef
from tests.core.hostile import Converter, Hostile, echo

OK, CRASH, HANG, BUG = (SampleRef(key, {}) for key in ("ok", "crash", "hang", "bug"))
NEXT, LARGE = {IMAGE: b"next"}, {IMAGE: b"x" * 10**6}


@pytest.fixture(scope="module")
def convert():
    hostile = Hostile(Converter(), crash="crash", hang="hang", bug="bug")
    with isolated(functools.partial(convert_sample, hostile.prepare), 0.5) as convert:
        yield convert


def test_a_sample_is_converted_in_the_child_as_it_is_here(convert):
    assert convert(OK, LARGE) == echo(OK, LARGE)


def test_a_decoder_that_crashes_costs_its_sample_and_the_next_one_is_converted(convert):
    error = convert(CRASH, {})
    assert isinstance(error, SampleError)
    assert error.reason is FailureReason.DECODER_CRASH
    assert "SIGSEGV" in error.detail
    assert convert(OK, NEXT).example == b"next"


def test_a_decoder_that_hangs_costs_its_sample_and_the_next_one_is_converted(convert):
    error = convert(HANG, {})
    assert isinstance(error, SampleError)
    assert error.reason is FailureReason.DECODE_TIMEOUT
    assert "0.5 seconds" in error.detail
    assert convert(OK, NEXT).example == b"next"


def test_a_child_that_the_system_kills_twice_ends_the_build_and_rejects_nothing():
    hostile = Hostile(Converter(), killed="large.jpg")
    with isolated(functools.partial(convert_sample, hostile.prepare), 5, name=lambda ref, _: ref.key) as convert:
        with pytest.raises(BuildError, match=r"^the decoder was killed twice at large\.jpg; .* when memory runs out"):
            convert(SampleRef("large.jpg", {}), {})
        assert convert(OK, NEXT).example == b"next"


def test_a_child_that_the_system_kills_once_is_tried_again(tmp_path):
    with isolated(_killed_first, 5) as call:
        assert call(tmp_path / "tried") == "done"


def _killed_first(tried: Path) -> str:
    if not tried.exists():
        tried.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def test_a_rejected_sample_is_rejected_as_without_the_child():
    with isolated(functools.partial(convert_sample, _reject), 5) as convert:
        error = convert(OK, {})
    assert isinstance(error, SampleError)
    assert (error.stage, error.reason, error.detail) == (Stage.DECODE, FailureReason.CORRUPT, "as asked")


def test_an_unexpected_exception_in_the_child_is_an_internal_error_with_its_traceback(convert):
    error = convert(BUG, {})
    assert isinstance(error, SampleError)
    assert (error.stage, error.reason) == (Stage.CONVERT, FailureReason.INTERNAL_ERROR)
    assert error.detail == "a bug"
    assert error.traceback is not None
    assert 'raise ZeroDivisionError("a bug")' in error.traceback


def test_the_time_limit_ends_a_process_that_never_returns_to_the_interpreter():
    # re.match keeps the interpreter for years on this pattern: no Python thread could intervene.
    code = (
        "import re\n"
        "from beam_tfrecords.transforms.processes.isolation import TimeLimit\n"
        "with TimeLimit(0.3):\n"
        "    pass\n"
        "with TimeLimit(0.3):\n"
        "    re.match('(a+)+b', 'a' * 64)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], timeout=300, check=False)
    assert ended.returncode == -14  # SIGALRM


def test_a_shorter_limit_of_another_thread_is_kept_when_this_one_ends():
    code = (
        "import re, threading, time\n"
        "from beam_tfrecords.transforms.processes.isolation import TimeLimit\n"
        "def hang():\n"
        "    with TimeLimit(0.5):\n"
        "        time.sleep(60)\n"
        "threading.Thread(target=hang).start()\n"
        "time.sleep(0.1)\n"
        "with TimeLimit(60):\n"
        "    pass\n"
        "time.sleep(30)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], timeout=300, check=False)
    assert ended.returncode == -14  # SIGALRM


def _reject(ref, data):
    raise SampleError(Stage.DECODE, FailureReason.CORRUPT, "as asked")


def _where() -> str:
    return os.getcwd()


def test_a_process_works_in_the_folder_that_its_caller_works_in(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with isolated(_where, 30) as where:
            assert where() == str(tmp_path / name)
