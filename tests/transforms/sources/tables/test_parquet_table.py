from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.transforms.sources.tables import parquet_table
from beam_tfrecords.transforms.sources.tables.parquet_table import open_parquet
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, RowRange
from tests.refusals import refuses


@pytest.fixture
def table(tmp_path):
    def write(columns, **options):
        pq.write_table(pa.table(columns), tmp_path / "m.parquet", **options)
        return open_parquet(str(tmp_path / "m.parquet"))

    return write


def values(table, column):
    return [row[column] for row in table.rows([column])]


KINDS = {
    "int8": (pa.array([1, None], pa.int8()), "int64", [1, None]),
    "uint64": (pa.array([2**64 - 1, 0], pa.uint64()), "int64", [2**64 - 1, 0]),
    "bool": (pa.array([True, False]), "int64", [True, False]),
    "half": (pa.array([1.5, 2.0]).cast(pa.float16()), "float", [1.5, 2.0]),
    "double": (pa.array([1.5, float("inf")]), "float", [1.5, float("inf")]),
    "string": (pa.array(["é", None]), "bytes", ["é", None]),
    "large_string": (pa.array(["é", "b"], pa.large_string()), "bytes", ["é", "b"]),
    "category": (pa.array(["a", "a"]).dictionary_encode(), "bytes", ["a", "a"]),
    "binary": (pa.array([b"\xff", b""]), "bytes", [b"\xff", b""]),
    "fixed_binary": (pa.array([b"ab", b"cd"], pa.binary(2)), "bytes", [b"ab", b"cd"]),
    "date": (pa.array([datetime.date(2020, 1, 2), None]), "bytes", ["2020-01-02", None]),
    "nanoseconds": (
        pa.array([1, 2], pa.timestamp("ns")),
        "bytes",
        ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000000002"],
    ),
    "utc": (
        pa.array([datetime.datetime(2020, 1, 2), None], pa.timestamp("ms", "UTC")),
        "bytes",
        ["2020-01-02 00:00:00.000Z", None],
    ),
    "decimal": (pa.array([decimal.Decimal("1.50"), None]), "bytes", ["1.50", None]),
    "list": (pa.array([[1, 2], []]), "int64", [[1, 2], []]),
    "vector": (pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)), "float", [[1, 2], [3, 4]]),
    "dates": (pa.array([[datetime.date(2020, 1, 2)], None]), "bytes", [["2020-01-02"], None]),
    "struct": (
        pa.array([{"t": 1}, None], pa.struct([("t", pa.timestamp("ns"))])),
        "bytes",
        [{"t": "1970-01-01 00:00:00.000000001"}, None],
    ),
    "map": (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), "bytes", [[("a", 1)], None]),
    "nothing": (pa.nulls(2), "bytes", [None, None]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_has_its_schemas_type_and_plain_values(table, kind):
    array, feature_type, expected = KINDS[kind]
    opened = table({"x": array})
    assert opened.column_types == {"x": feature_type}
    assert values(opened, "x") == expected


def test_the_schema_says_which_columns_can_hold_paths(table):
    opened = table({kind: array for kind, (array, _, _) in KINDS.items()})
    assert [name for name in opened.columns if opened.may_hold_text(name)] == [
        "string",
        "large_string",
        "category",
        "date",
        "nanoseconds",
        "utc",
        "decimal",
    ]


def test_only_the_columns_asked_for_are_read_in_the_order_asked_for(table):
    assert list(table({"a": [1], "b": [2], "c": [3]}).rows(["c", "a"])) == [{"c": 3, "a": 1}]
    assert list(table({"a": [1, 2]}).rows([])) == [{}, {}]


def test_rows_of_many_batches_and_row_groups_come_in_order(table):
    assert values(table({"x": range(3000)}, row_group_size=700), "x") == list(range(3000))


def test_a_broken_string_makes_one_invalid_row(table):
    raw = pa.array([b"ok", b"\xff", b"fine"])
    rows = list(table({"x": pa.Array.from_buffers(pa.string(), 3, raw.buffers()), "y": [1, 2, 3]}).rows(["x", "y"]))
    assert rows[0] == {"x": "ok", "y": 1}
    assert isinstance(rows[1], InvalidRow)
    assert rows[1].detail.startswith("row 1: ")
    assert rows[2] == {"x": "fine", "y": 3}


def test_a_file_of_another_format_is_refused(tmp_path):
    (tmp_path / "m.parquet").write_bytes(b"image,label\n")
    with refuses("invalid_file", "input"):
        open_parquet(str(tmp_path / "m.parquet"))


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "m.parquet").write_bytes(b"")
    with refuses("invalid_file", "input"):
        open_parquet(str(tmp_path / "m.parquet"))


def test_columns_of_the_same_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    pq.write_table(table, tmp_path / "m.parquet")
    with refuses("duplicate_column", "input", says=["'x'"]):
        open_parquet(str(tmp_path / "m.parquet"))


def test_every_row_that_a_damaged_file_lacks_is_invalid(table, tmp_path):
    opened = table({"x": [str(number) for number in range(5000)]}, compression="zstd", use_dictionary=False)
    data = bytearray((tmp_path / "m.parquet").read_bytes())
    data[100:2000] = bytes(1900)
    (tmp_path / "m.parquet").write_bytes(data)
    rows = list(opened.rows(["x"]))
    assert len(rows) == 5000
    assert isinstance(rows[-1], InvalidRow)
    assert rows[-1].detail.startswith("row 4999: ")
    assert len(list(opened.rows(["x"], RowRange(1000, 1000, 3000)))) == 2000


def test_an_image_column_of_bytes_is_refused_if_the_request_says_that_it_has_paths(tmp_path, opened):
    pq.write_table(pa.table({"image": [b"\xff\xd8"], "label": [1]}), tmp_path / "m.parquet")
    with refuses("embedded_images", "input", says=["'image'"]) as refused:
        opened(tmp_path / "m.parquet", source="parquet")
    (suggestion,) = refused.value.suggestions
    assert suggestion.settings == {"source": "hf_parquet", "image_column": "image"}


def test_a_parquet_table_gives_images_labels_and_typed_columns(touch, opened, listed):
    root = touch("1.jpg", "2.jpg")
    columns = {"image": ["1.jpg", "2.jpg"], "label": [0, 1], "split": ["train", None], "age": [3.5, None]}
    pq.write_table(pa.table(columns), root / "m.parquet")
    source = opened(root / "m.parquet", columns=None)
    assert source.name == "parquet"
    assert source.description.column_types == {"image": "bytes", "label": "int64", "split": "bytes", "age": "float"}
    samples = listed(source)
    assert [(s.label, s.split, dict(s.columns)) for s in samples.values()] == [
        (0, "train", {"age": 3.5}),
        (1, None, {"age": None}),
    ]


def test_labels_keys_and_splits_may_be_strings_stored_as_bytes(tmp_path, opened, listed):
    pq.write_table(pa.table({"label": [b"cat"], "split": [b"dev"], "id": [b"7"]}), tmp_path / "m.parquet")
    sample = listed(opened(tmp_path / "m.parquet", key_column="id"))["7"]
    assert (sample.label, sample.split) == ("cat", "dev")


def nested(chance: random.Random, depth: int = 0) -> tuple[pa.DataType, Callable[[], Any]]:
    """A type of lists and objects at random, and what makes a value of it."""

    def or_none(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: None if chance.random() < 0.1 else make()

    kind = chance.choice(("list", "large_list", "struct", "number")) if depth < 3 else "number"
    if kind == "number":
        return pa.int64(), or_none(lambda: chance.randrange(9))
    if kind == "struct":
        fields = {name: nested(chance, depth + 1) for name in "ab"}
        return pa.struct({name: one for name, (one, _) in fields.items()}), or_none(
            lambda: {name: make() for name, (_, make) in fields.items()}
        )
    inner, make = nested(chance, depth + 1)
    return (pa.list_ if kind == "list" else pa.large_list)(inner), or_none(
        lambda: [make() for _ in range(chance.choice((0, 1, 2, 9)))]
    )


@pytest.mark.parametrize("seed", range(12))
def test_rows_with_long_lists_are_those_that_arrow_reads(table, monkeypatch, seed):
    monkeypatch.setattr(parquet_table, "_SLICE_VALUES", 5)
    monkeypatch.setattr(parquet_table, "_GROUP_VALUES", 40)
    chance = random.Random(seed)
    columns = {name: nested(chance) for name in "xy"}
    rows = [{name: make() for name, (_, make) in columns.items()} for _ in range(60)]
    schema = pa.schema({name: kind for name, (kind, _) in columns.items()})
    made = pa.Table.from_pylist(rows, schema)
    assert list(table({name: made[name] for name in "xy"}).rows(["x", "y"])) == made.to_pylist()


def test_rows_with_long_texts_are_read_a_few_at_once(table, monkeypatch):
    texts = [f"{number:04d}" * 10_000 for number in range(100)]
    long = table({"id": list(range(100)), "text": texts})
    with parquet_table.opened(long.path) as file:
        group = file.metadata.row_group(0)
        assert parquet_table.fitting_rows(group, ["id"], most=512) == 512
        monkeypatch.setattr(parquet_table, "_BATCH_BYTES", 400_000)
        assert 5 < parquet_table.fitting_rows(group, ["id", "text"], most=512) <= 10
    assert [row["text"] for row in long.rows(["text"])] == texts


BOX = {"bbox": [1.0, 2.0, 3.0, 4.0], "category": 1}
MANY = {
    "objects": lambda count: [BOX] * count,
    "lists": lambda count: {"bbox": [BOX["bbox"]] * count, "category": [1] * count},
    "boxes": lambda count: [BOX["bbox"]] * count,
}


@pytest.mark.parametrize("form", MANY)
def test_a_row_with_too_many_objects_is_invalid_and_does_not_become_objects_of_python(table, monkeypatch, form):
    monkeypatch.setattr(parquet_table, "MOST_OBJECTS", 3)
    counts = [1, 4, 3, 4, 4, 0]
    rows = list(table({"x": [MANY[form](count) for count in counts]}).rows(["x"]))
    assert [isinstance(row, InvalidRow) for row in rows] == [count > 3 for count in counts]
    assert rows[1].detail == "row 1: a cell has 4 objects; expected at most 3"
    assert [rows[place] for place in (0, 2, 5)] == [{"x": MANY[form](count)} for count in (1, 3, 0)]


def test_a_list_of_numbers_may_be_longer_than_objects_are_many(table, monkeypatch):
    monkeypatch.setattr(parquet_table, "MOST_OBJECTS", 3)
    assert values(table({"x": [[1.0] * 9]}), "x") == [[1.0] * 9]
