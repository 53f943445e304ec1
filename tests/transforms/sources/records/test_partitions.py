"""Folders such as `label=cat` are columns of the records in them."""

from __future__ import annotations

import os

import pytest

from tests.framing import example_of, framed
from tests.refusals import refuses
from tests.transforms.sources.records.test_tfrecord_source import IMAGES, content


@pytest.fixture
def read(tmp_path, opened, read_containers):
    """The samples of files of one record each, whose features are the image and some others; and the source."""

    def run(files, *inputs, **settings):
        for name, features in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(framed(example_of({"image": IMAGES[0], **features})))
        source = opened(*(tmp_path / one for one in inputs or [""]), source="tfrecord", **settings)
        return read_containers(source)[0], source

    return run


def files_of(*folders, **features):
    return {f"{folder}/part-r-00000": features for folder in folders}


def test_values_are_labels_columns_and_keys_and_numbers_where_all_are(read):
    files = files_of("label=cat/age=3/share=0.5", "label=a%3Db/age=40/share=1", "label=007/age=-1/share=2")
    samples, source = read(files, columns=frozenset({"age", "share"}))
    assert [(one.label, one.columns) for one in samples] == [
        ("007", {"age": -1, "share": b"2"}),
        ("a=b", {"age": 40, "share": b"1"}),
        ("cat", {"age": 3, "share": b"0.5"}),
    ]
    assert samples[0].key == "label=007/age=-1/share=2/part-r-00000/000000000000"
    assert [content(one) for one in samples] == [IMAGES[0]] * 3
    types = {"label": "bytes", "age": "int64", "share": "bytes"}
    assert source.description.column_types == types


def test_a_missing_value_of_hive_is_none(read):
    files = files_of("label=cat/age=3", "label=__HIVE_DEFAULT_PARTITION__/age=__HIVE_DEFAULT_PARTITION__")
    samples, _ = read(files, columns=frozenset({"age"}))
    assert [(one.label, one.columns) for one in samples] == [(None, {"age": None}), ("cat", {"age": 3})]


def test_features_of_the_records_win_and_a_note_says_so(read):
    samples, source = read(files_of("label=cat", "label=dog", label=7))
    assert [one.label for one in samples] == [7, 7]
    assert source.notes[0].startswith("the folders label=… are not used")


@pytest.mark.parametrize("inputs", [[""], ["label=cat", "label=dog"], ["label=*/part-*"], ["**/part-*"]])
def test_the_folders_of_the_inputs_count(read, inputs):
    samples, _ = read(files_of("label=cat", "label=dog"), *inputs)
    assert [one.label for one in samples] == ["cat", "dog"]


def test_folders_around_the_input_do_not_count(read):
    samples, source = read(files_of("run=5/data/label=cat", "run=5/data/label=dog"), "run=5/data")
    assert [one.label for one in samples] == ["cat", "dog"]
    assert {*source.description.table.columns} == {"label"}


def test_a_split_of_the_folders_is_that_of_a_column(read):
    samples, _ = read(files_of("split=train", "split=val", label=1))
    assert [one.split for one in samples] == ["train", "val"]
    samples, _ = read(files_of("split=train", "split=val", label=1), split_column="")
    assert [one.split for one in samples] == [None, None]


def test_a_record_without_a_value_is_no_less_a_record(read):
    """Some files are in folders of a value, and others are not."""
    samples, _ = read({**files_of("x/label=cat", "x/label=dog"), "x/part-r-00000": {}}, "x")
    assert [one.label for one in samples] == ["cat", "dog", None]


def test_names_that_are_not_utf8_are_refused(tmp_path, opened):
    folder = os.fsencode(tmp_path / "label=caf") + b"\xe9"
    os.mkdir(folder)
    with open(folder + b"/part-r-00000", "wb") as file:
        file.write(framed(example_of({"image": IMAGES[0]})))
    with refuses("not_utf8", "input"):
        opened(tmp_path, source="tfrecord")
