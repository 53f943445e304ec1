"""Conversions that do to their process what a broken decoder does."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Mapping

from beam_tfrecords.transforms.blocks.convert_block import Convert
from beam_tfrecords.transforms.blocks.convert_sample import ConvertedSample
from beam_tfrecords.transforms.refs import IMAGE, SampleRef


@dataclasses.dataclass(frozen=True)
class Hostile:
    """Crashes on one key, never returns on another, raises on a third, is killed on a fourth; converts the rest."""

    convert: Convert
    crash: str = ""
    hang: str = ""
    bug: str = ""
    killed: str = ""

    def __call__(self, ref: SampleRef, images: Mapping[str, bytes]) -> ConvertedSample:
        if ref.key == self.crash:
            os.kill(os.getpid(), signal.SIGSEGV)
        if ref.key == self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        while ref.key == self.hang:
            pass
        if ref.key == self.bug:
            raise ZeroDivisionError("a bug")
        return self.convert(ref, images)


def echo(ref: SampleRef, images: Mapping[str, bytes]) -> ConvertedSample:
    """Stores the bytes as they are."""
    return ConvertedSample(example=images.get(IMAGE, b""))
