"""30 nights: an input that changes, disturbed builds, and users who copy, rename, link, pin and damage versions."""

from __future__ import annotations

import pytest

from tests.beam_pipelines.nights import SOURCES, History

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("source", SOURCES)
def test_six_nights_leave_whole_versions_and_nothing_foreign_is_gone(tmp_path, run, source):
    history = History(tmp_path, source, 0, run=run, disturbs=True)
    for _ in range(6):
        history.night()
