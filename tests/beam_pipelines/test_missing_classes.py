"""A class of the input that a split lacks is said: in the summary, the plan, the run summary and the report."""

from __future__ import annotations

import json
import shutil

import pytest

SPLITS = "--splits=train=0.8,validation=0.2"


@pytest.fixture
def pictures(tmp_path, photos):
    """The sample photos, with those of the class `cat` cut by `cut`."""
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    return folder


def cut(folder, keep=0):
    """Cuts the photos of cats, except for some."""
    for path in sorted(folder.glob("cat/*"))[keep:]:
        path.write_bytes(path.read_bytes()[:500])


def found(tmp_path, convert, pictures, *words):
    """Returns the warnings and the missing classes of the run summary."""
    summary = tmp_path / "run.json"
    ran = convert(f"--input={pictures}", f"--output={tmp_path / 'out'}", "--image_size=16", "--max_failures=0.5",
                  f"--json_summary={summary}", *words)  # fmt: skip
    assert ran.code == 0, ran.err
    missing = [(one["split"], one["classes"], one["of"]) for one in json.loads(summary.read_text())["missing_classes"]]
    return [line for line in ran.out.splitlines() if line.startswith(("warning", "shares"))], missing


@pytest.mark.report
def test_failures_take_a_class_from_a_split(tmp_path, convert, pictures):
    cut(pictures, keep=1)
    lines, missing = found(tmp_path, convert, pictures, SPLITS, "--stratify")
    assert lines == [
        "warning: split validation has no record of 1 of 7 classes: cat",
        "shares: train 83.3%, validation 16.7% of 42 samples",
    ]
    assert missing == [("validation", ["cat"], 7)]
    header, _, _ = (tmp_path / "out" / "report.html").read_text().partition("</header>")
    first = header.index("split validation has no record of 1 of 7 classes: cat")
    assert first < header.index("could not be converted")


def test_failures_take_a_class_from_every_split(tmp_path, convert, pictures):
    cut(pictures)
    lines, missing = found(tmp_path, convert, pictures)
    assert lines == ["warning: no split has a record of 1 of 7 classes: cat"]
    assert missing == [("", ["cat"], 7)]


def test_the_rule_of_the_splits_takes_classes_from_a_split_and_the_plan_says_it(tmp_path, convert, pictures):
    said = (
        "warning: split validation has no record of 2 of 7 classes: cat, flower; --stratify gives each split its share"
    )
    lines, missing = found(tmp_path, convert, pictures, SPLITS)
    assert lines == [said, "shares: train 85.7%, validation 14.3% of 42 samples"]
    assert missing == [("validation", ["cat", "flower"], 7)]
    ran = convert(f"--input={pictures}", f"--output={tmp_path / 'plan'}", SPLITS, "--dry_run")
    assert said in ran.out.splitlines()


def test_a_class_is_not_missing_if_the_request_leaves_it_out(tmp_path, convert, pictures):
    for words in (["--where=label != 'cat'"], ["--limit=3"]):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        assert found(tmp_path, convert, pictures, *words) == ([], [])


def test_a_class_of_the_request_without_samples_is_not_missing(tmp_path, convert, pictures):
    names = "building,cat,coffee,flower,person,rocket,space,zebra"
    assert found(tmp_path, convert, pictures, f"--class_names={names}") == ([], [])


def test_shares_near_to_the_fractions_are_not_said(tmp_path, convert, pictures):
    lines, _ = found(tmp_path, convert, pictures, "--splits=train=5/6,validation=1/6", "--stratify")
    assert lines == []


@pytest.mark.report
def test_the_banner_of_the_report_names_conflicting_labels_and_a_version_its_time(tmp_path, convert, photos):
    for label in ("cat", "dog"):
        (tmp_path / "in" / label).mkdir(parents=True)
        shutil.copy(photos / "cat/cat_01.jpg", tmp_path / "in" / label / "1.jpg")
    ran = convert(f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--image_size=16", "--versioned")
    assert ran.code == 0, ran.err
    version = (tmp_path / "out/LATEST").read_text().strip()
    header, _, _ = (tmp_path / "out" / version / "report.html").read_text().partition("</header>")
    assert "groups of equal images with different labels: 1" in header
    assert f"2 records in 1 shard, built {version[:4]}-{version[4:6]}-{version[6:8]} " in header
