"""50 nights: an input that changes, builds that are killed, suspended or out of disk, versions kept and pinned."""

from __future__ import annotations

import os

import pytest

from tests.beam_pipelines.nights import SOURCES, History

# 150 nights more take five minutes: SEEDS=0,1,2,3 make test-integration.
SEEDS = [int(word) for word in os.environ.get("SEEDS", "0").split(",")]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("source", SOURCES)
def test_ten_nights_leave_whole_versions_and_nothing_foreign_is_gone(tmp_path, run, source, seed):
    history = History(tmp_path, source, seed, run=run, disturbs=True)
    for _ in range(10):
        history.night()
