"""Ctrl-C in code that makes another error of it, or none."""

from __future__ import annotations

import os
import signal

import pytest

from beam_pipelines.interrupts import keep_interrupts


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
