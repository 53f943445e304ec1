"""A file whose accents are written apart is found, and a fault of the disk is none of its name."""

from __future__ import annotations

import errno
import os
import unicodedata

import pytest

from beam_tfrecords import BuildError, storage
from beam_tfrecords.transforms import service_faults
from beam_tfrecords.transforms.sources.image_files import as_named


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_either_form_leads_to_the_file(form, tmp_path):
    path = tmp_path / unicodedata.normalize(form, "Äpfel.png")
    path.write_bytes(b"x")
    for asked in ("NFC", "NFD"):
        assert as_named(unicodedata.normalize(asked, str(path))) == str(path)
    assert as_named(f"{tmp_path}/Öl.png") == f"{tmp_path}/Öl.png"


@pytest.mark.parametrize(("number", "ends"), [(errno.EACCES, False), (errno.ESTALE, True)])
def test_a_path_that_cannot_be_looked_at_is_no_missing_file(number, ends, monkeypatch):
    def fail(path):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(storage, "exists", fail)
    monkeypatch.setattr(service_faults, "PAUSES", (0.01,))
    if ends:
        with pytest.raises(BuildError, match="Stale file handle"):
            as_named("/d/Öl.png")
    else:
        assert as_named("/d/Öl.png") == "/d/Öl.png"
