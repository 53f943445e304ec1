from __future__ import annotations

import os

import pytest

from beam_tfrecords.transforms.settings import read_settings, settings_of, write_settings
from beam_tfrecords.transforms.sources.registry import NAMES
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tables.table_settings import UnknownLabels
from beam_tfrecords.transforms.sources.tally import Tally
from tests.refusals import refuses


def read(**words):
    return read_settings(SourceSpec, words)


def test_one_input_is_written_as_a_string_and_several_as_a_list(tmp_path):
    for word in (f"{tmp_path}/a", [f"{tmp_path}/a", "gs://bucket/b"]):
        spec = read(input=word)
        assert spec.input == tuple([word] if isinstance(word, str) else word)
        assert write_settings(spec)["input"] == word
        assert read_settings(SourceSpec, write_settings(spec)) == spec


def test_a_mapping_says_the_splits_of_inputs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    spec = read(input={"train": "a", "test": "/b"})
    assert spec.input == (f"train={os.getcwd()}/a", "test=/b")
    assert read_settings(SourceSpec, write_settings(spec)) == spec


def test_relative_inputs_become_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert read(input="a").input == (f"{os.getcwd()}/a",)


@pytest.mark.parametrize("words", [{}, {"input": ""}, {"input": []}, {"input": ["a", ""]}, {"input": [None]}])
def test_a_missing_input_is_refused(words):
    with refuses("missing_setting", "input"):
        read(**words)


def test_every_setting_is_read_and_the_rest_have_defaults():
    words = {
        "input": "/a",
        "source": "csv",
        "label_pattern": "(?P<label>.)",
        "image_column": "i",
        "label_column": "l",
        "split_column": "s",
        "key_column": "k",
        "allow_outside_root": "true",
        "image_path": "{i}.jpg",
        "image_root": "/images",
        "label_separator": "|",
        "delimiter": ";",
        "encoding": "utf-16",
    }
    spec = read(**words)
    assert write_settings(spec) | words == write_settings(spec) | {"allow_outside_root": "true"}
    assert read(input="/a") == SourceSpec(input=("/a",))


@pytest.mark.parametrize(("word", "meaning"), [("no", "no"), (False, "no"), (True, "yes"), ("reject", "reject")])
def test_the_words_of_unknown_labels_are_those_that_yaml_makes_of_them(word, meaning):
    assert read(input="/a", unknown_labels=word).unknown_labels is UnknownLabels(meaning)


def test_where_the_input_is_does_not_decide_the_bytes():
    names = [setting.name for setting in settings_of(SourceSpec) if not setting.decides_bytes]
    assert names == ["input", "allow_private_addresses", "trust_annotations", "fingerprint", "requester_pays"]


def test_the_help_of_source_names_the_sources():
    (source,) = (one for one in settings_of(SourceSpec) if one.name == "source")
    assert source.help == f"auto, {', '.join(NAMES)}"


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
