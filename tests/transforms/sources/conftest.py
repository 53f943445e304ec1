"""Folders and manifests on disk for the sources to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms.sources.detect import Source, open_source
from transforms.sources.spec import SourceSpec
from transforms.values import SampleRef

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
    """Opens a source by its input (one or several) and the fields of a spec."""

    def make(*inputs: Any, **fields: Any) -> Source:
        return open_source(SourceSpec(input=tuple(map(str, inputs)), **fields))

    return make


@pytest.fixture
def listed() -> Callable[[Source], dict[str, SampleRef]]:
    """Key -> reference; every one survives packing, and no two have the same key."""

    def read(source: Source) -> dict[str, SampleRef]:
        samples = list(source.samples())
        assert [SampleRef.unpack(sample.pack()) for sample in samples] == samples
        by_key = {sample.key: sample for sample in samples}
        assert len(by_key) == len(samples)
        return by_key

    return read
