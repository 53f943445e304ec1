"""The lines at the end of a build."""

from __future__ import annotations

import pytest

from beam_pipelines.summary import format_bytes, format_table, summarize

MANIFEST = {
    "listed": 1_500,
    "splits": {
        "train": {
            "records": 1_200,
            "failures": 10,
            "shards": 2,
            "bytes": 300_000_000,
            "classes": {"cat": 700, "dog": 500},
        },
        "test": {"records": 290, "failures": 0, "shards": 1, "bytes": 70_000_000, "classes": {"cat": 290}},
    },
    "failure_reasons": {"corrupt": 2, "truncated": 8},
    "skipped": {"hidden": {"files": 1, "examples": [".DS_Store"]}},
    "duplicates": {"groups": 0, "images": 0, "groups_across_splits": 0, "groups_with_conflicting_labels": 0},
    "dropped_duplicates": 0,
    "spec": {"compression": "none"},
}


def test_splits_classes_reasons_and_skipped_files_are_told():
    assert summarize(MANIFEST, output="out", seconds=3) == [
        "split  records  failures  shards      size",
        "train    1,200        10       2  300.0 MB",
        "test       290         0       1   70.0 MB",
        "classes: cat 990, dog 500",
        "failures: truncated 8, corrupt 2",
        "skipped: 1 hidden (.DS_Store)",
        "1,500 samples in 3.0 s (500/s, start-up included)",
        "dataset: out",
    ]


def test_gzip_is_said_not_to_be_for_tfds():
    lines = summarize({**MANIFEST, "spec": {"compression": "gzip"}}, output="out", seconds=3)
    assert any("TensorFlow Datasets can't read GZIP" in line for line in lines)


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (150_000_000, "150.0 MB"), (2.5e12, "2.5 TB")])
def test_sizes_are_in_decimal_units(size, text):
    assert format_bytes(size) == text


def test_numbers_are_aligned_to_the_right():
    assert format_table([["a", "n"], ["long", "10"]]) == ["a      n", "long  10"]
