"""Nights on which nothing goes wrong; those with kills, suspended builds and full disks are integration tests."""

from __future__ import annotations

import pytest

from tests.beam_pipelines.nights import SOURCES, History


@pytest.mark.sampled(1)
@pytest.mark.parametrize("source", SOURCES)
def test_the_newest_version_is_a_build_from_scratch(tmp_path, run, source):
    history = History(tmp_path, source, 0, run=run, disturbs=False)
    for _ in range(5):
        history.night()
