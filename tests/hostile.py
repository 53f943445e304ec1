"""Conversions that do to their process what a broken decoder does."""

from __future__ import annotations

import dataclasses
import os
import signal

from transforms.isolation import Convert
from transforms.values import ConvertedSample, SampleRef


@dataclasses.dataclass(frozen=True)
class Hostile:
    """Crashes on one key, never ends on another, has a bug on a third; else converts as `convert` does."""

    convert: Convert
    crash: str = ""
    hang: str = ""
    bug: str = ""

    def __call__(self, ref: SampleRef, data: bytes | None) -> ConvertedSample:
        if ref.key == self.crash:
            os.kill(os.getpid(), signal.SIGSEGV)
        while ref.key == self.hang:
            pass
        if ref.key == self.bug:
            raise ZeroDivisionError("a bug")
        return self.convert(ref, data)


def echo(ref: SampleRef, data: bytes | None) -> ConvertedSample:
    """The simplest conversion there is."""
    return ConvertedSample(example=data or b"", class_names=(), content_hash="", height=None, width=None)
