"""How many shards a small size makes."""

from __future__ import annotations

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.framing import records_of


def test_there_are_never_more_shards_than_records(photos, tmp_path, build):
    out = build(tmp_path / "out", f"--input={photos}", "--image_size=8", "--shard_size=1B")
    assert [shard["records"] for shard in manifest_of(out)["shards"]] == [1] * 42


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_shards_of_any_number_hold_the_same_records_in_the_same_order(photos, tmp_path, build, compression):
    found = []
    for number in (1, 5, 40):
        words = ("--image_size=8", f"--num_shards={number}", f"--compression={compression}")
        out = build(tmp_path / f"{number}", f"--input={photos}", *words)
        files = [out / shard["file"] for shard in manifest_of(out)["shards"]]
        assert len(files) == number
        found.append([record for file in files for record in records_of(file)])
    assert len(found[0]) == 42
    assert found[0] == found[1] == found[2]
