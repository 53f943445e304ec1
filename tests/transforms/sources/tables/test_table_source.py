"""What holds for tables of every format: which column is what, and which rows are rejected."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType
from tests.each import each
from tests.refusals import refuses
from tests.source_requests import open_source


@pytest.fixture
def csv_file(tmp_path):
    def write(*lines: str, name: str = "m.csv"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    return write


@pytest.fixture
def jsonl_file(tmp_path):
    def write(*rows: object, name: str = "m.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    return write


def only(samples):
    (sample,) = samples.values()
    return sample


def test_a_row_names_its_image_relative_to_the_table(touch, csv_file, opened, listed):
    root = touch("sub/cat.jpg")
    source = opened(csv_file("image,label", "sub/cat.jpg,cat"))
    assert Content.IMAGE in source.description.provides
    assert (source.description.unit, source.description.labels_may_be_indices, source.containers()) == (
        "row",
        True,
        None,
    )
    sample = listed(source)["sub/cat.jpg"]
    entry = storage.stat(str(root / "sub/cat.jpg"))
    assert sample == SampleRef("sub/cat.jpg", one_image(File(entry.path, entry.version)), 6, entry.fingerprint, "cat")


MISSING = {
    "float": ["", " ", None, "nan", "NaN", float("nan"), float("inf"), "-inf", "Infinity", "N/A", [], [1.0, None]],
    "text": ["", " \n", None, "null", [], ["a", " "]],
}


@each("kind, value", [(kind, value) for kind, values in MISSING.items() for value in values], ids=repr)
def test_a_label_that_is_a_number_or_a_text_may_not_be_missing(touch, jsonl_file, opened, listed, kind, value):
    touch("1.jpg")
    path = jsonl_file({"image": "1.jpg", "y": value})
    for row in ({"image": "1.jpg"}, {}):  # Rows without images are read together.
        path = jsonl_file({**row, "y": value})
        source = opened(path, label_type=LabelType(kind), label_column="y", needs_label=False, columns=frozenset({"y"}))
        assert only(listed(source)).failure[0] == "label_missing"


def test_a_table_given_by_a_relative_path_gives_absolute_ones(touch, csv_file, opened, listed, monkeypatch):
    monkeypatch.chdir(touch("cat.jpg"))
    csv_file("image,label", "cat.jpg,cat")
    assert only(listed(opened("m.csv"))).uri == f"{os.getcwd()}/cat.jpg"


def test_columns_may_be_named_by_settings(touch, csv_file, opened, listed):
    touch("1.jpg")
    table = csv_file("id,path,kind,part", "row-1,1.jpg,cat,dev")
    fields = {"image_column": "path", "label_column": "kind", "split_column": "part", "key_column": "id"}
    sample = listed(opened(table, **fields))["row-1"]
    assert (sample.uri, sample.label, sample.split) == (str(table.parent / "1.jpg"), "cat", "dev")


@pytest.mark.parametrize("setting", ["image_column", "label_column", "split_column", "key_column"])
def test_a_named_column_that_does_not_exist_is_refused_with_those_that_do(csv_file, opened, setting):
    with refuses("unknown_column", setting, says=[f"{setting}=kinds", "m.csv", "it has: image, label"]):
        opened(csv_file("image,label"), **{setting: "kinds"})


def test_a_table_without_a_label_is_refused_where_one_is_needed(csv_file, opened):
    with refuses("missing_label_column", "input", "label_column", says=["'label'", "it has: image, kind"]):
        opened(csv_file("image,kind"))
    assert opened(csv_file("image,kind"), needs_label=False).description.columns == ("image", "kind")


def test_a_column_of_the_layout_that_does_not_exist_is_refused_with_those_that_do(csv_file, opened):
    with refuses("unknown_column", "layout", says=["it has: image, label", "m.csv"]):
        opened(csv_file("image,label"), columns=frozenset({"age", "label"}))


def test_a_table_without_images_gives_its_columns_under_row_numbers(csv_file, opened, listed):
    source = opened(csv_file("x,y", "1,a", "2,b"), needs_label=False, columns=None)
    assert Content.IMAGE not in source.description.provides
    samples = listed(source)
    assert {key: dict(sample.columns) for key, sample in samples.items()} == {
        "000000000000": {"x": "1", "y": "a"},
        "000000000001": {"x": "2", "y": "b"},
    }
    assert {sample.uri for sample in samples.values()} == {None}


def test_only_the_columns_asked_for_are_carried(csv_file, opened, listed):
    table = csv_file("label,x,y", "cat,1,2")
    assert only(listed(opened(table))).columns == {}
    assert only(listed(opened(table, columns=frozenset({"y"})))).columns == {"y": "2"}
    assert only(listed(opened(table, columns=None))).columns == {"x": "1", "y": "2"}


def test_label_image_split_and_key_are_columns_too_if_asked_for_by_name(touch, csv_file, opened, listed):
    touch("1.jpg")
    table = csv_file("image,label,split,id", "1.jpg,cat,dev,7")
    columns = {"image": "1.jpg", "label": "cat", "split": "dev", "id": "7"}
    assert only(listed(opened(table, key_column="id", columns=frozenset(columns)))).columns == columns


def test_an_empty_label_or_split_is_none(csv_file, opened, listed):
    sample = only(listed(opened(csv_file("label,split,x", ",,1"))))
    assert (sample.label, sample.split, sample.failure) == (None, None, None)


def test_an_empty_key_is_an_invalid_row(csv_file, opened, listed):
    sample = only(listed(opened(csv_file("label,id", "cat,"), key_column="id")))
    assert (sample.key, sample.failure) == ("000000000000", ("invalid_row", "column 'id' is empty"))


def test_a_row_without_an_image_path_is_invalid(csv_file, opened, listed):
    sample = only(listed(opened(csv_file("image,label", ",cat"))))
    assert (sample.key, sample.uri) == ("000000000000", None)
    assert sample.failure == ("invalid_row", "column 'image' is empty")


def test_a_key_or_path_longer_than_any_path_is_invalid(csv_file, opened, listed):
    sample = only(listed(opened(csv_file("image,label", "x" * 5000 + ",cat"))))
    assert sample.key == "000000000000"
    assert sample.failure is not None
    assert "5,000 characters" in sample.failure[1]


def test_missing_images_and_folders_are_unreadable_and_the_rest_is_listed(touch, csv_file, opened, listed):
    touch("1.jpg", "folder/2.jpg")
    rows = ("1.jpg,a", "none.jpg,b", "folder,c", "1.jpg/x,d", "n" * 300 + ",e", "ftp://x.org/1.jpg,f")
    samples = listed(opened(csv_file("image,label", *rows)))
    reasons = {key[:20]: sample.failure and sample.failure[0] for key, sample in samples.items()}
    assert reasons.pop("1.jpg") is None
    assert set(reasons.values()) == {"unreadable"}
    assert len(reasons) == 5
    assert samples["none.jpg"].failure[1].startswith("no such file: ")


def test_paths_outside_the_folder_of_the_table_are_rejected_unless_allowed(touch, opened, listed, monkeypatch):
    # As where the extra for gs:// is installed.
    monkeypatch.setattr(storage, "check_scheme", lambda path: None)
    root = touch("outside.jpg", "data/inside.jpg", "data/m.csv")
    lines = ["image,label", "../outside.jpg,a", "inside.jpg,b", f"{root}/outside.jpg,c", "gs://bucket/x.jpg,d"]
    (root / "data/m.csv").write_text("\n".join(lines))
    samples = listed(opened(root / "data/m.csv"))
    rejected = {key: sample.failure for key, sample in samples.items() if sample.failure}
    assert {reason for reason, _ in rejected.values()} == {"outside_root"}
    assert all("`allow_outside_root`" in detail for _, detail in rejected.values())
    assert set(rejected) == {"../outside.jpg", f"{root}/outside.jpg", "gs://bucket/x.jpg"}
    allowed = listed(opened(root / "data/m.csv", allow_outside_root=True))
    assert {sample.failure for sample in allowed.values()} == {None}
    remote = allowed["gs://bucket/x.jpg"]
    assert (remote.uri, remote.size, remote.fingerprint) == ("gs://bucket/x.jpg", 0, "")


def test_a_rejected_row_keeps_its_key_and_split(csv_file, opened, listed):
    sample = listed(opened(csv_file("image,label,split", "none.jpg,cat,dev")))["none.jpg"]
    assert sample.split == "dev"
    assert sample.failure is not None


def test_keys_of_several_tables_begin_with_their_names(csv_file, opened, listed):
    first, second = csv_file("label", "a", name="1.csv"), csv_file("label", "b", name="2.csv")
    assert list(listed(opened(first, second))) == ["1.csv/000000000000", "2.csv/000000000000"]


def test_tables_with_and_without_images_are_refused_together(csv_file, opened):
    with refuses("columns_differ", "input"):
        opened(csv_file("image,label", name="1.csv"), csv_file("label", name="2.csv"))


def test_parquet_files_of_different_types_are_refused_together(tmp_path, opened):
    pq.write_table(pa.table({"label": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"label": ["cat"]}), tmp_path / "2.parquet")
    with refuses("columns_differ", "input", says=["2.parquet", "'label'", "bytes", "int64"]):
        opened(tmp_path / "*.parquet")


# Values of jsonl (and parquet) rows


@pytest.mark.parametrize("label", ["cat", 3, 0, 0.5, ["a", "b"], [1, 2], None])
def test_a_label_keeps_its_type(jsonl_file, opened, listed, label):
    sample = only(listed(opened(jsonl_file({"label": label}))))
    assert sample.label == label
    assert type(sample.label) is type(label)


@pytest.mark.parametrize(
    ("label", "expected"),
    [(True, "true"), (False, "false"), (3.0, 3), (float("nan"), None), (" cat ", "cat"), (" ", None), ([1.0], [1])],
)
def test_a_label_becomes_a_name_or_a_number(jsonl_file, opened, listed, label, expected):
    sample = only(listed(opened(jsonl_file({"label": label}))))
    assert sample.label == expected
    assert type(sample.label) is type(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.5, 1.5),
        ([1, 2.5, None], [1, 2.5, None]),
        ({"a": [1]}, '{"a": [1]}'),
        ([[1, 2], {"b": "é"}], ["[1, 2]", '{"b": "é"}']),
        (2**64 - 1, 2**64 - 1),
    ],
)
def test_a_column_keeps_scalars_and_lists_and_gives_deeper_values_as_json(jsonl_file, opened, listed, value, expected):
    assert only(listed(opened(jsonl_file({"label": 1, "x": value}), columns=None))).columns == {"x": expected}


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, [10**30], "\ud800", ["\ud800"]])
def test_a_value_that_a_reference_cannot_hold_makes_an_invalid_row(jsonl_file, opened, listed, value):
    sample = only(listed(opened(jsonl_file({"label": 1, "x": value}), columns=None)))
    assert sample.failure is not None
    assert sample.failure[0] == "invalid_row"


@pytest.mark.parametrize("row", [{"id": 1.5}, {"id": True}, {"id": [1]}, {"id": None}, {"id": 1, "split": [1]}])
def test_a_key_split_or_label_of_the_wrong_kind_makes_an_invalid_row(jsonl_file, opened, listed, row):
    table = jsonl_file({"label": "cat", "split": "dev", **row})
    sample = only(listed(opened(table, key_column="id")))
    assert sample.failure is not None
    assert sample.failure[0] == "invalid_row"


def test_integer_keys_and_splits_become_strings(jsonl_file, opened, listed):
    table = jsonl_file({"id": 7, "label": 1, "split": 0})
    sample = only(listed(opened(table, key_column="id", split_column="split")))
    assert (sample.key, sample.split) == ("7", "0")


CELL = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(0, 3),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["", " cat ", "NA", "train", "cat|dog", ["cat", "NA"], {"a": 1}, [1, "ü"]]),
)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"label_column": "a", "split_column": "b"},
        {"label_column": "a", "label_separator": "|", "group_column": "c"},
        {"label_columns": ("a", "b"), "key_column": "c", "missing_values": ("NA",)},
        {"columns": frozenset({"c", "b"}), "label_column": "a"},
    ],
)
@given(data=st.data())
def test_rows_that_are_read_together_are_the_same_as_one_by_one(fields, data):
    kind = data.draw(st.sampled_from([CELL, st.integers(), st.text("ab", max_size=2), st.none() | st.floats(0, 9)]))
    rows = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys("abc", kind)), min_size=1, max_size=5))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        listed = []
        # Beside a row that cannot be read, each is read alone.
        for name, more in (("together", ""), ("alone", "[]\n")):
            table = Path(folder, f"{name}.jsonl")
            table.write_text(lines + more)
            try:
                source = open_source(table, needs_image=False, needs_label=False, **fields)
            except RequestError as error:
                # A column of objects is no label.
                assume(error.code != "column_without_labels")
                raise
            refs = list(source.samples())[: len(rows)]
            listed.append([(ref, ref.group, ref.pack()) for ref in refs])
        assert listed[0] == listed[1]
