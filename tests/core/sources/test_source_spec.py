"""What a request says of its input, and what a listing leaves out."""

from __future__ import annotations

import os

import pytest

from beam_tfrecords.transforms.settings import read_settings, write_settings
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tally import Tally


def test_a_mapping_says_the_splits_of_inputs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    spec = read_settings(SourceSpec, {"input": {"train": "a", "test": "/b"}})
    assert spec.input == (f"train={os.getcwd()}/a", "test=/b")
    assert read_settings(SourceSpec, write_settings(spec)) == spec


def test_skipped_files_of_several_listings_add_up():
    total, other = Tally(), Tally()
    for key in "ab":
        total.add(".txt", key)
    for key in "cde":
        other.add(".txt", key)
    other.add("hidden", ".x")
    total.merge(other)
    assert dict(total.counts) == {".txt": 5, "hidden": 1}
    assert total.examples == {".txt": ["a", "b", "c"], "hidden": [".x"]}


def test_the_kinds_of_skipped_files_stay_bounded_when_listings_add_up():
    total = Tally()
    for listing in range(3):
        other = Tally()
        for number in range(80):
            other.add(f".{listing}-{number}", "x")
        total.merge(other)
    assert len(total.counts) == 101
    assert total.counts.total() == 240


@pytest.mark.parametrize("order", [1, -1])
def test_the_examples_of_skipped_files_do_not_depend_on_the_order_of_the_listing(order):
    total = Tally()
    for start in (0, 40)[::order]:
        other = Tally()
        for number in range(start, start + 40)[::order]:
            other.add(".txt", f"{number:02}")
        total.merge(other)
    assert total.examples == {".txt": ["00", "01", "02"]}
