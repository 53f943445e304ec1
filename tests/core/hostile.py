"""Conversions that do to their process what a broken decoder does."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from beam_tfrecords.beam_pipelines.build import prepare
from beam_tfrecords.dataset.published_paths import UNCHANGED, PublishedPaths
from beam_tfrecords.features.layouts import Layout, parse_layout
from beam_tfrecords.tfrecord import masked_crc32c
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import ConvertedBatch, ConvertSample, PreparedSample
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, SampleRef

Prepare = Callable[[SampleRef, Mapping[str, bytes]], PreparedSample]


def echo(ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
    """Stores the bytes as they are."""
    return PreparedSample(example=images.get(IMAGE, b""), index_columns={"sample_hash": "hash"})


@dataclasses.dataclass(frozen=True)
class Converter:
    """A converter that prepares samples by a function, and takes what that makes as it is."""

    prepare: Prepare = echo
    layout: ClassVar[Layout] = parse_layout("image")
    paths: ClassVar[PublishedPaths] = UNCHANGED

    def finish(self, refs: RefColumns, prepared: Sequence[PreparedSample]) -> ConvertedBatch:
        examples = [one.example or b"" for one in prepared]
        columns = {name: [""] * len(refs) for name in ("sample_hash", "content_hash")}
        listed = {
            "key": refs.keys,
            "uri": refs.uris(),
            "fingerprint": refs.each("fingerprint"),
            "label": [None] * len(refs),
        }
        return ConvertedBatch(examples, list(map(masked_crc32c, examples)), [()] * len(refs), {**listed, **columns})


@dataclasses.dataclass(frozen=True)
class Hostile:
    """Crashes on one key, never returns on another, raises on a third, is killed on a fourth; converts the rest.

    Each may be a glob of keys.
    """

    convert: Converter | ConvertSample
    crash: str = ""
    hang: str = ""
    bug: str = ""
    killed: str = ""

    @property
    def class_names(self) -> ClassNames:
        return self.convert.class_names

    @property
    def layout(self) -> Layout:
        return self.convert.layout

    @property
    def paths(self) -> PublishedPaths:
        return self.convert.paths

    def prepare(self, ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
        if fnmatch.fnmatchcase(ref.key, self.crash):
            os.kill(os.getpid(), signal.SIGSEGV)
        if fnmatch.fnmatchcase(ref.key, self.killed):
            os.kill(os.getpid(), signal.SIGKILL)
        while fnmatch.fnmatchcase(ref.key, self.hang):
            pass
        if fnmatch.fnmatchcase(ref.key, self.bug):
            raise ZeroDivisionError("a bug")
        return self.convert.prepare(ref, images)

    def finish(self, refs: RefColumns, prepared: Sequence[PreparedSample]) -> ConvertedBatch:
        return self.convert.finish(refs, prepared)


def make_builds_hostile(monkeypatch: pytest.MonkeyPatch, **keys: str) -> None:
    """Has builds of this process convert samples as `Hostile` says."""
    plan_blocks = prepare.plan_blocks

    def plan_hostile(*arguments: Any, **options: Any) -> BlockPlan:
        plan = plan_blocks(*arguments, **options)
        return dataclasses.replace(plan, convert=Hostile(plan.convert, **keys))

    monkeypatch.setattr(prepare, "plan_blocks", plan_hostile)
