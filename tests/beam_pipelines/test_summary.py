"""The summary at the end of a build."""

from __future__ import annotations

import pytest

from beam_tfrecords.beam_pipelines.messages.summary import format_bytes, format_table, summarize

MANIFEST = {
    "listed": 1_500,
    "splits": {
        "train": {
            "listed": 1_210,
            "records": 1_200,
            "failures": 10,
            "shards": 2,
            "bytes": 300_000_000,
            "classes": {"cat": 700, "dog": 500},
        },
        "test": {
            "listed": 290,
            "records": 290,
            "failures": 0,
            "shards": 1,
            "bytes": 70_000_000,
            "classes": {"cat": 290},
        },
    },
    "failure_reasons": {"corrupt": 2, "truncated": 8},
    "stored_as_png": {},
    "skipped": {"hidden": {"files": 1, "examples": [".DS_Store"]}},
    "duplicates": {"groups": 0, "images": 0, "groups_across_splits": 0, "groups_with_conflicting_labels": 0},
    "dropped_duplicates": 0,
    "reuse": {"copied": 0, "reserialized": 0, "converted": 1_490},
    "spec": {"compression": "none"},
}


def test_the_summary_shows_splits_classes_reasons_and_skipped_files():
    assert summarize(MANIFEST, output="out", seconds=3) == [
        "split  records  failures  shards      size",
        "train    1,200        10       2  300.0 MB",
        "test       290         0       1   70.0 MB",
        "classes of train: cat 700, dog 500",
        "classes of test: cat 290",
        "warning: split test has no record of 1 of 2 classes: dog",
        "failures: truncated 8, corrupt 2",
        "  list: out/failures.jsonl",
        "skipped: 1 hidden (.DS_Store)",
        "1,500 samples in 3.0 s (500/s, start-up included)",
        "dataset: out",
    ]


def test_the_classes_of_a_single_split_are_shown_without_its_name():
    classes = {f"c{number}": 1_000 for number in range(12)}
    manifest = {**MANIFEST, "splits": {"train": {**MANIFEST["splits"]["train"], "classes": classes}}}
    (line,) = [line for line in summarize(manifest, output="out", seconds=3) if line.startswith("classes")]
    assert line.startswith("classes: c0 1,000, c1 1,000, ")
    assert line.endswith(", c9 1,000, and 2 more")


def test_notes_of_the_manifest_are_shown_with_settings_as_flags():
    lines = summarize({**MANIFEST, "notes": ["`jpeg_quality=80`: without effect"]}, output="out", seconds=3)
    assert "note: --jpeg_quality=80: without effect" in lines


def test_internal_errors_have_a_line_of_their_own():
    manifest = {**MANIFEST, "failure_reasons": {"internal_error": 1_000, "corrupt": 1}}
    lines = summarize(manifest, output="out", seconds=3)
    (loud,) = [line for line in lines if line.startswith("INTERNAL ERRORS: 1,000 samples")]
    assert "failures.jsonl" in loud
    assert "failures: internal_error 1,000, corrupt 1" in lines


def test_images_that_were_to_be_kept_and_are_stored_as_png_are_counted_by_format():
    lines = summarize({**MANIFEST, "stored_as_png": {"TIFF": 2, "WEBP": 30}}, output="out", seconds=3)
    assert "stored as PNG, because only PNG and plain JPEG files are kept: WEBP 30, TIFF 2" in lines


def test_filtered_samples_have_a_line():
    assert "filtered: 1,200" in summarize({**MANIFEST, "filtered": 1200}, output="out", seconds=3)


def test_leaks_between_splits_come_before_other_duplicates():
    counts = {"groups": 3, "images": 7, "groups_across_splits": 1, "groups_with_conflicting_labels": 2}
    kept = summarize({**MANIFEST, "duplicates": counts}, output="out", seconds=3)
    leaks, duplicates = (line for line in kept if line.startswith(("leaks", "duplicates")))
    assert leaks == "leaks: images in more than one split: 1"
    assert "  list: out/duplicates.jsonl; --overwrite --duplicates=drop keeps one of each" in kept
    assert duplicates == "duplicates: images that occur more than once: 3, copies: 7, with different labels: 2"
    dropped = summarize({**MANIFEST, "duplicates": counts, "dropped_duplicates": 4}, output="out", seconds=3)
    assert any(line.endswith("in more than one split: 1, with different labels: 2, dropped: 4") for line in dropped)
    assert not any(line.startswith("leaks") for line in dropped)


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (150_000_000, "150.0 MB"), (2.5e12, "2.5 TB")])
def test_sizes_are_shown_in_decimal_units(size, text):
    assert format_bytes(size) == text


def test_numbers_are_aligned_to_the_right():
    assert format_table([["a", "n"], ["long", "10"]]) == ["a      n", "long  10"]
