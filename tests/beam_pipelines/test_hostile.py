"""Images that crash or hang the decoder or meet a bug: each is rejected alone, with the workers that users get."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from tests.core.hostile import make_builds_hostile

pytestmark = pytest.mark.local_runner


@pytest.fixture
def convert_hostile(photos, tmp_path, convert, monkeypatch) -> Callable:
    """Runs `convert` on the photos, and one file that is not an image, with a conversion that does harm."""

    def run(*flags: str, **hostile: str):
        (tmp_path / "in").mkdir()
        for folder in photos.iterdir():
            (tmp_path / "in" / folder.name).symlink_to(folder)
        (tmp_path / "in/empty").mkdir()
        (tmp_path / "in/empty/0.jpg").write_bytes(b"")
        (tmp_path / "in/empty/1.jpg").write_bytes(b"not an image")
        make_builds_hostile(monkeypatch, **hostile)
        words = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--image_size=64"]
        return convert(*words, *flags)

    return run


def failures_in(output: Path) -> list[dict]:
    return [json.loads(line) for line in (output / "failures.jsonl").read_text(encoding="utf-8").splitlines()]


def test_images_that_crash_or_hang_the_decoder_are_rejected_and_the_rest_is_converted(convert_hostile, tmp_path, capfd):
    ran = convert_hostile("--max_failures=0.1", "--image_timeout=2", crash="cat/cat_01.jpg", hang="space/space_03.jpg")
    assert ran.code == 0, ran.err
    failures = failures_in(tmp_path / "out")
    assert sorted((failure["key"], failure["reason"]) for failure in failures) == [
        ("cat/cat_01.jpg", "decoder_crash"),
        ("empty/0.jpg", "empty"),
        ("empty/1.jpg", "not_an_image"),
        ("space/space_03.jpg", "decode_timeout"),
    ]
    assert open_dataset(str(tmp_path / "out")).manifest["records"] == 40
    assert capfd.readouterr().err == ""


@pytest.mark.any_workers
def test_an_unexpected_exception_rejects_one_sample_loudly_and_the_rest_is_converted(convert_hostile, tmp_path, verify):
    ran = convert_hostile("--max_failures=0.1", bug="cat/cat_01.jpg")
    assert ran.code == 0, ran.err
    by_key = {failure["key"]: failure for failure in failures_in(tmp_path / "out")}
    failure = by_key["cat/cat_01.jpg"]
    assert (failure["stage"], failure["reason"]) == ("convert", "internal_error")
    assert failure["detail"] == "a bug"
    assert 'raise ZeroDivisionError("a bug")' in failure["traceback"]
    assert [key for key, other in by_key.items() if "traceback" in other] == ["cat/cat_01.jpg"]
    manifest = open_dataset(str(tmp_path / "out")).manifest
    assert (manifest["listed"], manifest["records"], manifest["failures"]) == (44, 41, 3)
    assert manifest["failure_reasons"] == {"empty": 1, "internal_error": 1, "not_an_image": 1}
    (loud,) = [line for line in ran.out.splitlines() if line.startswith("INTERNAL ERRORS: 1 ")]
    assert "failures.jsonl" in loud
    assert verify(tmp_path / "out").code == 0
