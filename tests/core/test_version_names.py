"""The names of versions: times, later than all that are there."""

from __future__ import annotations

import pytest

from beam_tfrecords.dataset.versions import new_version

NOW = 1795316400.0


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "20261122T030000Z"),
        (["20261121T030000Z"], "20261122T030000Z"),
        (["20261122T030000Z"], "20261122T030001Z"),
        (["20261122T235958Z", "20261122T235959Z"], "20261123T000000Z"),  # by a machine whose clock is ahead
        (["20269999T999999Z"], "20261122T030000Z"),
        (["99991231T235959Z"], "20261122T030000Z"),
    ],
)
def test_a_new_version_is_newer_than_those_that_are_there(tmp_path, names, expected):
    assert new_version(str(tmp_path), NOW, names=names) == expected


def test_a_new_version_has_a_name_of_its_own(tmp_path):
    for name in ("20261122T030000Z", "20261122T030001Z", "20990101T000000Z", "notes"):
        (tmp_path / name).mkdir()
    assert new_version(str(tmp_path), NOW, names=[]) == "20261122T030002Z"
