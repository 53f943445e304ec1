"""A folder that cannot be listed for a moment is listed again."""

from __future__ import annotations

import errno
import json
import os

import pytest

from beam_tfrecords.beam_pipelines.build.listing import list_for_build
from beam_tfrecords.transforms import service_faults
from tests.trees import write_tree


@pytest.mark.parametrize("faults", [2, 100])
def test_a_folder_that_cannot_be_listed_is_listed_again(tmp_path, convert, monkeypatch, faults):
    photos = write_tree(tmp_path / "in", "cat/{0..9}.png dog/{10..19}.png", {"cat/notes.txt": ""})
    scandir, left = os.scandir, iter(range(faults))

    def fail(path="."):
        if str(path) == str(photos / "dog") and next(left, None) is not None:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
        return scandir(path)

    list_once = list_for_build.list_here

    def list_with_faults(*arguments, **named):
        # Opening the source has looked into the folders before.
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", fail)
            patch.setattr(service_faults, "PAUSES", (0.01, 0.02))
            return list_once(*arguments, **named)

    monkeypatch.setattr(list_for_build, "list_here", list_with_faults)
    ran = convert(f"--input={photos}", f"--output={tmp_path / 'out'}", "--image_size=16")
    if faults == 2:
        assert ran.code == 0, ran.err
        manifest = json.loads((tmp_path / "out/manifest.json").read_text())
        assert (manifest["records"], manifest["skipped"][".txt"]["files"]) == (20, 1)
    else:
        said = f"{photos}/dog cannot be read: Stale file handle; once this is fixed, the same command resumes"
        assert (ran.code, ran.out, said in ran.err) == (1, "", True)
