"""Builds of so many blocks that what they leave beside their parts is joined by range first."""

from __future__ import annotations

import shutil

import pytest

from beam_tfrecords.transforms.blocks import results as block_files

pytestmark = pytest.mark.any_workers


def test_the_failures_are_the_same(photos, build, tmp_path, monkeypatch):
    shutil.copytree(photos, tmp_path / "photos")
    for path in sorted((tmp_path / "photos").glob("*/*_0[12].jpg")):
        path.write_bytes(path.read_bytes()[:1000])
    flags = [f"--input={tmp_path / 'photos'}", "--image_size=32", "--max_failures=1", "--splits=train=0.6,test=0.4"]
    one_by_one = build(tmp_path / "one_by_one", *flags)
    monkeypatch.setattr(block_files, "RANGE_BLOCKS", 1)
    joined = build(tmp_path / "joined", *flags)
    failures = (joined / "failures.jsonl").read_text()
    assert failures == (one_by_one / "failures.jsonl").read_text()
    assert failures.count("\n") == 14
