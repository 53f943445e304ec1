"""Inputs on disk for the sources to read."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_tfrecords.transforms.refs.ref_columns import RefColumns, one_by_one
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally
from tests.converting import repacked
from tests.source_requests import open_source

Touch = Callable[..., Path]
Open = Callable[..., Source]


@pytest.fixture
def touch(tmp_path: Path) -> Touch:
    """Makes small files below tmp_path by their relative names; returns tmp_path."""

    def make(*names: str) -> Path:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"pixels")
        return tmp_path

    return make


@pytest.fixture
def opened() -> Open:
    """Opens a source, given its inputs, settings and needs."""
    return open_source


def infer(source: Source, samples: list[SampleRef], tally: Tally) -> list[SampleRef]:
    """The samples with their final labels and splits."""
    folders = FolderSummary()
    for sample in samples:
        if sample.failure is None:
            folders.add_image(sample.key)
    folders.merge(tally.folders)
    change = source.infer(folders) if source.description.is_inferred_later else None
    decided = map(change.apply, RefColumns.of(samples)) if change else []
    return list(itertools.chain.from_iterable(decided)) if change else samples


@pytest.fixture
def listed() -> Callable[[Source], dict[str, SampleRef]]:
    """Key -> final reference. Every reference survives packing, and no two have the same key."""

    def read(source: Source) -> dict[str, SampleRef]:
        samples = list(one_by_one(source.samples()))
        samples = infer(source, samples, source.skipped)
        assert [repacked(sample) for sample in samples] == samples
        by_key = {sample.key: sample for sample in samples}
        assert len(by_key) == len(samples)
        return by_key

    return read


@pytest.fixture
def read_containers(tmp_path: Path) -> Callable[[Source], tuple[list[SampleRef], Tally]]:
    """The samples of all containers of a source, read as the pipeline does, and what they skipped."""

    def read(source: Source) -> tuple[list[SampleRef], Tally]:
        samples: list[SampleRef] = []
        tally = Tally()
        containers = source.containers()
        assert containers is not None
        for number, container in enumerate(containers):
            reader = pickle.loads(pickle.dumps(source.read))
            with StagingFiles(str(tmp_path / "staging"), f"{number:06d}") as staging:
                container = Partition.unpack(container.pack())
                samples += one_by_one(until_damage(reader(container, tally, staging), container, tally))
        assert [repacked(sample) for sample in samples] == samples
        return samples, tally

    return read
