"""Ctrl-C and SIGTERM in code that makes another error of them, or none."""

from __future__ import annotations

import os
import signal

import pytest

from beam_tfrecords.beam_pipelines.interrupts import Terminated, catch_termination, keep_interrupts


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def fail_to_import() -> None:
    try:
        press_ctrl_c()
    except KeyboardInterrupt:
        raise ImportError("numpy failed to import") from None


def test_an_error_that_ctrl_c_came_out_as_is_an_interrupt():
    with pytest.raises(KeyboardInterrupt) as raised, keep_interrupts():
        fail_to_import()
    assert isinstance(raised.value.__cause__, ImportError)


def test_the_innermost_of_two_blocks_raises_it():
    with keep_interrupts(), pytest.raises(KeyboardInterrupt), keep_interrupts():
        press_ctrl_c()


def test_other_errors_stay_what_they_are():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ImportError), keep_interrupts():
        raise ImportError
    assert signal.getsignal(signal.SIGINT) is before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with keep_interrupts():
            press_ctrl_c()
    finally:
        signal.signal(signal.SIGINT, before)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def terminate_twice() -> None:
    try:
        terminate()
    finally:
        terminate()


def fail_in_a_runner() -> None:
    try:
        terminate()
    except KeyboardInterrupt:
        raise RuntimeError("a runner's") from None


@pytest.fixture
def sigterm():
    yield
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.mark.usefixtures("sigterm")
def test_sigterm_is_raised_once_and_ignored_from_then_on():
    with pytest.raises(Terminated), catch_termination(), keep_interrupts():
        terminate_twice()
    terminate()


@pytest.mark.usefixtures("sigterm")
def test_an_error_that_sigterm_came_out_as_is_a_termination():
    with pytest.raises(Terminated) as raised, catch_termination(), keep_interrupts():
        fail_in_a_runner()
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.usefixtures("sigterm")
def test_sigterm_stays_with_whoever_handles_it():
    arrived = []
    signal.signal(signal.SIGTERM, lambda number, frame: arrived.append(number))
    with catch_termination(), keep_interrupts():
        terminate()
    assert arrived == [signal.SIGTERM]


def test_without_sigterm_nothing_stays_changed():
    with catch_termination(), keep_interrupts():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
