"""Looks of a build at its disk fail, once and always: more of them than in `make test`."""

from __future__ import annotations

import shutil

import pytest

from tests.beam_pipelines.disk_faults import KINDS
from tests.beam_pipelines.test_disk_faults import library, try_faults

__all__ = ["library"]

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler, for a library that is preloaded"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_no_fault_of_a_look_loses_anything(library, tmp_path, kind):
    found = try_faults(library, tmp_path, kind, most=15, seed=1)
    assert len(found) == 15
    assert not [one for one in found if one["wrong"]]
