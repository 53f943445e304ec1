"""Every look of a build at its disk fails in turn, once and always: some minutes for each kind of build."""

from __future__ import annotations

import shutil

import pytest

from tests.beam_pipelines.disk_faults import KINDS
from tests.beam_pipelines.test_disk_faults import library, try_faults

__all__ = ["library"]

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="needs a C compiler, for a library that is preloaded"
)


@pytest.mark.parametrize("kind", KINDS)
def test_no_fault_of_a_look_loses_anything(library, tmp_path, kind):
    found = try_faults(library, tmp_path, kind, most=0, seed=1)
    assert len(found) > 100
    assert not [one for one in found if one["wrong"]]
