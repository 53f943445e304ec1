"""DICOM and NIfTI without their libraries; tests/integration/test_scans.py reads them."""

from __future__ import annotations

import sys

import pytest

import beam_tfrecords
from tests.refusals import refuses


@pytest.fixture(params=["a.dcm", "a.nii", "a.nii.gz"])
def scans(request, tmp_path, monkeypatch):
    for library in ("pydicom", "nibabel"):
        monkeypatch.setitem(sys.modules, library, None)
    folder = tmp_path / "scans"
    folder.mkdir()
    (folder / request.param).write_bytes(b"content")
    return folder


def test_a_missing_library_is_refused_before_anything_starts(scans, tmp_path):
    with refuses("missing_extra", "input", says=["pip install '.[medical]' in the clone"]):
        beam_tfrecords.build(input=str(scans), output=str(tmp_path / "out"), source="scans", quiet=True)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_scans_without_a_source_is_asked_about(scans, tmp_path):
    with refuses("no_samples", "input", says=["after pip install '.[medical]'"]) as refusal:
        beam_tfrecords.build(input=str(scans), output=str(tmp_path / "out"), quiet=True)
    assert [one.settings for one in refusal.value.suggestions] == [{"source": "scans"}]


def test_arrays_of_scans_have_no_window(scans, tmp_path, monkeypatch):
    with refuses("missing_extra", "input"):
        beam_tfrecords.build(
            input=str(scans), output=str(tmp_path / "out"), source="scans", layout="array", window="full", quiet=True
        )
