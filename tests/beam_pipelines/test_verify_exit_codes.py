"""`verify`: exit code 0 only if everything is right, 1 for a broken dataset, 2 if there is none."""

from __future__ import annotations

import json
import shutil

import pytest


@pytest.mark.any_workers
@pytest.mark.parametrize("name", ["plain", "gzip", "raw", "tutorial"])
def test_a_good_dataset_is_verified(datasets, verify, name):
    ran = verify(datasets[name])
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"OK: 40 records in 4 shards of {datasets[name]} verified\n"


def test_a_dataset_can_be_moved(datasets, verify, tmp_path):
    assert verify(shutil.copytree(datasets["plain"], tmp_path / "somewhere else")).code == 0


def test_foreign_files_in_the_folder_are_ignored(damaged, verify):
    path = damaged()
    (path / "notes.md").write_text("mine")
    assert verify(path).code == 0


def test_a_folder_without_a_finished_dataset_is_a_wrong_request(datasets, damaged, verify):
    path = damaged()
    (path / "_SUCCESS").unlink()
    ran = verify(path)
    ran.refused("no_dataset", "output", says=["_SUCCESS"])
    assert ran.out == ""


@pytest.mark.parametrize("text", [None, "", "[]", "{}", "not JSON"])
def test_a_dataset_whose_manifest_cannot_be_read_is_broken(damaged, verify, text):
    path = damaged()
    (path / "manifest.json").unlink()
    if text is not None:
        (path / "manifest.json").write_text(text)
    ran = verify(path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "manifest.json" in ran.err


def test_json_is_one_document_with_all_findings(datasets, damaged, verify):
    good = verify(datasets["plain"], "--json")
    assert (good.code, good.err) == (0, "")
    found = json.loads(good.out)
    assert (found["ok"], found["records"], found["findings"]) == (True, 40, [])
    path = damaged()
    shard = next(path.glob("*.tfrecord*"))
    shard.write_bytes(shard.read_bytes()[:-1])
    bad = verify(path, "--json", "--findings=1")
    assert (bad.code, bad.err) == (1, "")
    found = json.loads(bad.out)
    assert not found["ok"]
    assert found["num_findings"] >= len(found["findings"]) == 1
    assert found["findings"][0].keys() >= {"file", "record", "offset", "problem"}
