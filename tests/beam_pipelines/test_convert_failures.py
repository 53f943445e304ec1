"""`convert` with files that cannot be converted: listed with reasons, and published only within the limit."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import EXACT, FLAGS, manifest_of

BROKEN = {
    "cat/empty.jpg": "empty",
    "cat/text.jpg": "not_an_image",
    "dog/truncated.png": "truncated",
    "dog/flipped.png": "corrupt",
    "dog/nowhere.png": "unreadable",
    "dog/pipe.png": "unreadable",
    "without_a_class.jpg": "label_missing",
}


def failures_in(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def tolerated(broken, pets, build) -> Path:
    return build(pets.parent / "tolerated", f"--input={broken}", *FLAGS, *EXACT, "--max_failures=0.06")


@pytest.mark.any_workers
def test_failures_below_the_limit_are_listed_with_reasons(broken, tolerated, verify):
    failures = failures_in(tolerated / "failures.jsonl")
    assert {failure["key"]: failure["reason"] for failure in failures} == BROKEN
    found = {failure["key"]: failure["stage"] for failure in failures if failure["reason"] in ("corrupt", "truncated")}
    assert found == {"dog/truncated.png": "decode", "dog/flipped.png": "decode"}
    for failure in failures:
        assert list(failure) == ["key", "uri", "stage", "reason", "detail"]
        assert failure["uri"] == f"{broken.name}/{failure['key']}"
        assert failure["detail"]
        assert "\n" not in failure["detail"]
    manifest = manifest_of(tolerated)
    assert (manifest["listed"], manifest["records"], manifest["failures"]) == (127, 120, 7)
    assert manifest["failure_reasons"] == Counter(BROKEN.values())
    assert sum(entry["failures"] for entry in manifest["splits"].values()) == 7
    assert verify(tolerated).code == 0


def test_good_images_give_the_same_records_with_and_without_bad_ones_beside_them(tolerated, out, read):
    for split in ("train", "validation"):
        with_bad = [(record.key, record.values) for record in read(tolerated, split)]
        assert with_bad == [(record.key, record.values) for record in read(out, split)]


def test_more_failures_than_allowed_publish_the_list_and_nothing_else(broken, tmp_path, convert, snapshot):
    ran = convert(f"--input={broken}", f"--output={tmp_path / 'out'}", *FLAGS, "--max_failures=0.05")
    assert ran.code == 3
    assert "7 of 127" in ran.err
    assert "--max_failures" in ran.err
    assert str(tmp_path / "out/failures.jsonl") in ran.err
    assert {failure["key"] for failure in failures_in(tmp_path / "out/failures.jsonl")} == set(BROKEN)
    found = [name for name in snapshot(tmp_path / "out") if not name.startswith(".build")]
    assert sorted(found) == ["./", "duplicates.jsonl", "failures.jsonl"]


def test_a_single_failure_stops_publishing_if_none_is_allowed(broken, tmp_path, convert):
    ran = convert(f"--input={broken}", f"--output={tmp_path / 'out'}", "--max_failures=0", "--image_size=8")
    assert ran.code == 3


def test_a_build_without_a_single_record_is_not_published(tmp_path, convert):
    for number in range(3):
        (tmp_path / "in/cat").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"in/cat/{number}.jpg").write_text("this is not a picture")
    flags = ["--max_failures=1", "--layout=image"]
    ran = convert(f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", *flags)
    assert ran.code == 3
    assert not (tmp_path / "out/_SUCCESS").exists()


def test_a_finished_dataset_stays_as_it_is_if_the_new_build_fails(broken, out, tmp_path, convert, verify, snapshot):
    old = shutil.copytree(out, tmp_path / "out")
    before = snapshot(old)
    ran = convert(f"--input={broken}", f"--output={old}", "--max_failures=0", "--image_size=8", "--overwrite")
    assert ran.code == 3
    assert snapshot(old, without=[".build"]) == before
    (listed,) = [line for line in ran.err.splitlines() if "failures.jsonl" in line]
    listed_at = Path(listed[listed.index(str(tmp_path)) :])
    assert {failure["key"] for failure in failures_in(listed_at)} == set(BROKEN)
    assert verify(old).code == 0
