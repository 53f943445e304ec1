"""Nights on which users do what they like; those with disturbed builds run in `make test-nightly`."""

from __future__ import annotations

import pytest

from tests.beam_pipelines.nights import SOURCES, History


@pytest.mark.parametrize("source", SOURCES)
def test_the_newest_version_is_a_build_from_scratch(tmp_path, run, source):
    history = History(tmp_path, source, 0, run=run, disturbs=False)
    for _ in range(6):
        history.night()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("source", SOURCES)
def test_ten_nights_leave_whole_versions_and_nothing_foreign_is_gone(tmp_path, run, source, seed):
    """350 nights in all, with builds that are killed, suspended, out of disk, or two at once."""
    history = History(tmp_path, source, seed, run=run, disturbs=True)
    for _ in range(10):
        history.night()
