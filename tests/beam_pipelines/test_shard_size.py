"""How many shards a small size makes."""

from __future__ import annotations

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of


@pytest.mark.parametrize("word", ["1", "150", "9999"])
def test_a_small_size_without_a_unit_is_refused(photos, tmp_path, convert, word):
    ran = convert(f"--input={photos}", f"--output={tmp_path / 'out'}", f"--shard_size={word}")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert f"--shard_size={word}: {word} bytes? say {word}MB" in ran.err
    assert not (tmp_path / "out").exists()


def test_there_are_never_more_shards_than_records(photos, tmp_path, build):
    out = build(tmp_path / "out", f"--input={photos}", "--image_size=8", "--shard_size=1B")
    assert [shard["records"] for shard in manifest_of(out)["shards"]] == [1] * 42
