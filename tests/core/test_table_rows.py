"""Rows of tables: any text and any Arrow type, in bounded memory, one by one as together."""

from __future__ import annotations

import codecs
import contextlib
import csv
import datetime
import decimal
import encodings.aliases
import gzip
import io
import json
import random
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.tables import parquet_table, row_source, text_table
from beam_tfrecords.transforms.sources.tables.csv_table import open_table as open_csv
from beam_tfrecords.transforms.sources.tables.jsonl_table import open_table as open_jsonl
from beam_tfrecords.transforms.sources.tables.parquet_table import open_table as open_parquet
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow, RowRange
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType
from tests.core.opened_sources import open_source
from tests.each import each
from tests.refusals import refuses

TEXTS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def read(tmp_path) -> Callable[..., list[Any]]:
    """Writes a text, and returns all rows."""

    def run(data: bytes, name: str = "t.csv") -> list[Any]:
        (tmp_path / name).write_bytes(data)
        table = (open_jsonl if name.endswith("jsonl") else open_csv)(str(tmp_path / name))
        return list(table.rows(table.columns))

    return run


# Texts.

# A lone surrogate cannot be written as UTF-8, and Python 3.10's csv module writes no NUL.
CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["", '"', ",", "\r\n", "\n", '""', '"a"', " ", "\ufeff"]
)


@TEXTS
@given(
    rows=st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1)),
    # With "\n" as its terminator csv.writer leaves a "\r" in a cell unquoted, which nobody can read back.
    style=st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]),
    bom=st.booleans(),
)
def test_what_csv_writer_writes_is_read_back(read, rows, style, bom):
    header = [f"column {number}" for number in range(len(rows[0]))]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=style[0], quoting=style[1]).writerows([header, *rows])
    assert [list(row.values()) for row in read(text.getvalue().encode("utf-8-sig" if bom else "utf-8"))] == rows


@each("bad, detail", [
    (b"1," + b"x" * MOST_ROW_SIZE, "a row of more than 4,194,304 characters"),
    (b'1,"' + (b"x" * 1000 + b"\n") * (MOST_ROW_SIZE // 1000), "a row of more than 4,194,304 characters"),
    (b'1,"' + b"x\n" * 10_000, "a row of more than 10,000 lines"),
    (b'1,"two\nlines \xff"\n' + "3,é".encode(), "not valid UTF-8"),
])  # fmt: skip
def test_a_long_or_damaged_row_is_invalid_and_the_rows_around_it_are_read(read, bad, detail):
    rows = read(b"x,y\na,b\n" + bad + b"\nc,d\n")
    assert (rows[0], rows[-1]) == ({"x": "a", "y": "b"}, {"x": "c", "y": "d"})
    assert isinstance(rows[1], InvalidRow)
    assert rows[1].detail.startswith("line 3: ")
    assert detail in rows[1].detail


@each("bad, detail", [
    (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    (b'{"a": ' * 100_000, "nested too deeply"),
    (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
    (b'{"a": "' + b"x" * MOST_ROW_SIZE + b'"}', "more than 4,194,304 characters"),
])  # fmt: skip
def test_a_long_or_deep_object_is_invalid_and_the_rows_around_it_are_read(read, bad, detail):
    first, invalid, last = read(b'{"a": 0}\n' + bad + b'\n{"a": 3}\n', "t.jsonl")
    assert (first, last) == ({"a": 0}, {"a": 3})
    assert invalid.detail.startswith("line 2: ")
    assert detail in invalid.detail


def test_a_field_of_ten_megabytes_is_invalid_in_bounded_memory(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"x,y\n1," + b"z" * 10_000_000 + b"\n2,3\n")
    table = open_csv(str(tmp_path / "t.csv"))
    tracemalloc.start()
    first, *others = table.rows(table.columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(first, InvalidRow)
    assert others == [{"x": "2", "y": "3"}]
    assert peak < 64_000_000


def test_a_compressed_row_without_an_end_is_not_read_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(text_table, "_MOST_SKIPPED", 8 << 20)
    with gzip.open(tmp_path / "t.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"image,label\n1.jpg,cat\n" + b"x" * (40 << 20) + b"\n2.jpg,dog\n")
    *_, last = open_csv(str(tmp_path / "t.csv.gz")).rows(["image"])
    assert last.ends
    assert "it has no end" in last.detail


@pytest.mark.nightly
def test_a_gzip_file_that_is_cut_ends_the_table(tmp_path):
    rows = "".join(f"{number}.jpg,{number * 7919 % 1009}\n" for number in range(400_000))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(f"image,label\n{rows}".encode(), 1)[:-1000])
    *others, last = open_csv(str(tmp_path / "t.csv.gz")).rows(["image"])
    assert last.ends
    assert "t.csv.gz cannot be read beyond line " in last.detail
    assert len(others) > 100_000


def test_ranges_are_cut_where_no_byte_changes_the_meaning_of_the_next():
    kept = {name for name in text_encodings() if text_table._keeps_lines(name)}
    for name in kept - {"utf-8", "utf-8-sig"}:
        for first in range(128, 256):
            found = bytes(byte for second in range(128) for byte in (first, second)).decode(name, "replace")
            assert found[1::2] == bytes(range(128)).decode()
    assert kept >= {"utf-8", "ascii", "iso8859-1", "cp1252", "koi8-r", "mac-roman"}
    assert not kept & {"utf-16", "utf-16-le", "utf-32", "utf-7", "hz", "shift_jis", "gbk", "big5", "cp037"}
    # Its characters are pairs of ASCII bytes, quotes too.
    assert not [name for name in kept if name.startswith("iso2022")]


def text_encodings() -> Iterator[str]:
    for name in set(encodings.aliases.aliases.values()):
        with contextlib.suppress(LookupError, ValueError):  # of another system, or of bytes
            b"a".decode(name)
            yield codecs.lookup(name).name


# Parquet.


@pytest.fixture
def table(tmp_path) -> Callable[..., parquet_table.ParquetTable]:
    def write(columns: dict[str, Any], **options: Any) -> parquet_table.ParquetTable:
        pq.write_table(pa.table(columns), tmp_path / "t.parquet", **options)
        return open_parquet(str(tmp_path / "t.parquet"))

    return write


def values(opened: parquet_table.ParquetTable, column: str) -> list[Any]:
    return [row[column] for row in opened.rows([column])]


DAY, NOON = datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 12)
KINDS: dict[str, tuple[pa.Array, str, list[Any]]] = {
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
    "date": (pa.array([DAY, None]), "bytes", ["2020-01-02", None]),
    "nanoseconds": (pa.array([1, None], pa.timestamp("ns")), "bytes", ["1970-01-01 00:00:00.000000001", None]),
    "utc": (
        pa.array([datetime.datetime(2020, 1, 2), None], pa.timestamp("ms", "UTC")),
        "bytes",
        ["2020-01-02 00:00:00.000Z", None],
    ),
    "decimal": (pa.array([decimal.Decimal("1.50"), None]), "bytes", ["1.50", None]),
    "list": (pa.array([[1, 2], []]), "int64", [[1, 2], []]),
    "vector": (pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)), "float", [[1, 2], [3, 4]]),
    "dates": (pa.array([[DAY], None]), "bytes", [["2020-01-02"], None]),
    "struct": (
        pa.array([{"t": 1}, None], pa.struct([("t", pa.timestamp("ns"))])),
        "bytes",
        [{"t": "1970-01-01 00:00:00.000000001"}, None],
    ),
    "map": (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), "bytes", [[("a", 1)], None]),
    "nothing": (pa.nulls(2), "bytes", [None, None]),
}


@each("kind", KINDS)
def test_a_column_has_its_schemas_type_and_plain_values(table, kind):
    array, feature_type, expected = KINDS[kind]
    opened = table({"x": array})
    assert opened.column_types == {"x": feature_type}
    assert values(opened, "x") == expected
    texts = {"string", "large_string", "category", "date", "nanoseconds", "utc", "decimal"}
    assert opened.may_hold_text("x") == (kind in texts)


def test_a_broken_string_makes_one_invalid_row(table):
    raw = pa.array([b"ok", b"\xff", b"fine"])
    rows = list(table({"x": pa.Array.from_buffers(pa.string(), 3, raw.buffers()), "y": [1, 2, 3]}).rows(["x", "y"]))
    assert [isinstance(row, InvalidRow) for row in rows] == [False, True, False]
    assert rows[1].detail.startswith("row 1: ")
    assert rows[2] == {"x": "fine", "y": 3}


def test_columns_of_the_same_name_are_refused(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), tmp_path / "t.parquet")
    with refuses("duplicate_column", "input", says=["'x'"]):
        open_parquet(str(tmp_path / "t.parquet"))


def test_every_row_that_a_damaged_file_lacks_is_invalid(table, tmp_path):
    opened = table({"x": [str(number) for number in range(5000)]}, compression="zstd", use_dictionary=False)
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    data[100:2000] = bytes(1900)
    (tmp_path / "t.parquet").write_bytes(data)
    rows = list(opened.rows(["x"]))
    assert len(rows) == 5000
    assert isinstance(rows[-1], InvalidRow)
    assert rows[-1].detail.startswith("row 4999: ")
    assert len(list(opened.rows(["x"], RowRange(1000, 1000, 3000)))) == 2000


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


@each("seed", range(12))
def test_rows_with_long_lists_are_those_that_arrow_reads(table, monkeypatch, seed):
    monkeypatch.setattr(parquet_table, "_SLICE_VALUES", 5)
    monkeypatch.setattr(parquet_table, "_GROUP_VALUES", 40)
    chance = random.Random(seed)
    columns = {name: nested(chance) for name in "xy"}
    rows = [{name: make() for name, (_, make) in columns.items()} for _ in range(60)]
    made = pa.Table.from_pylist(rows, pa.schema({name: kind for name, (kind, _) in columns.items()}))
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


@each("form", MANY)
def test_a_row_with_too_many_objects_is_invalid_and_does_not_become_objects_of_python(table, monkeypatch, form):
    monkeypatch.setattr(parquet_table, "MOST_OBJECTS", 3)
    counts = [1, 4, 3, 4, 4, 0]
    rows = list(table({"x": [MANY[form](count) for count in counts]}).rows(["x"]))
    assert [isinstance(row, InvalidRow) for row in rows] == [count > 3 for count in counts]
    assert rows[1].detail == "row 1: a cell has 4 objects; expected at most 3"
    assert [rows[place] for place in (0, 2, 5)] == [{"x": MANY[form](count)} for count in (1, 3, 0)]
    assert values(table({"x": [[1.0] * 9]}), "x") == [[1.0] * 9]


# References.

MIXED = st.one_of(
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
        {"columns": frozenset({"a"}), "label_column": "a", "label_type": LabelType.FLOAT},
    ],
)
@given(data=st.data())
def test_rows_that_are_read_together_are_the_same_as_one_by_one(fields, data):
    kind = data.draw(st.sampled_from([MIXED, st.integers(), st.text("ab", max_size=2), st.none() | st.floats(0, 9)]))
    rows = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys("abc", kind)), min_size=1, max_size=5))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        listed = []
        # Beside a row that cannot be read, each is read alone.
        for name, more in (("together", ""), ("alone", "[]\n")):
            path = Path(folder, f"{name}.jsonl")
            path.write_text(lines + more)
            try:
                source = open_source(path, needs_image=False, needs_label=False, **fields)
            except RequestError as error:
                # A column of objects is no label.
                assume(error.code != "column_without_labels")
                raise
            refs = list(source.samples())[: len(rows)]
            listed.append([(ref, ref.group, ref.pack()) for ref in refs])
        assert listed[0] == listed[1]


@pytest.mark.parametrize("is_there", [True, False])
def test_the_image_of_many_rows_is_looked_at_once(tmp_path, monkeypatch, is_there):
    names = ["b.jpg", *["a.jpg"] * 500, "b.jpg"]
    (tmp_path / "b.jpg").write_bytes(b"pixels")
    if is_there:
        (tmp_path / "a.jpg").write_bytes(b"pixels")
    rows = "".join(f"{name},1,2,3,4,dog\n" for name in names)
    (tmp_path / "boxes.csv").write_text(f"image,xmin,ymin,xmax,ymax,label\n{rows}")
    source, looked = open_source(tmp_path / "boxes.csv", needs_label=False, needs_objects=True), []
    look = row_source.look
    monkeypatch.setattr(row_source, "look", lambda uri: looked.append(uri) or look(uri))
    samples = list(source.samples())
    assert [bool(sample.failure) for sample in samples] == [name == "a.jpg" and not is_there for name in names]
    assert len(looked) == 2


def test_opening_a_table_reads_its_first_rows_a_few_times(tmp_path, monkeypatch):
    reads, rows = [], text_table.TextTable.rows
    monkeypatch.setattr(text_table.TextTable, "rows", lambda *words: reads.append(words) or rows(*words))
    path = tmp_path / "t.csv"
    path.write_text(
        "image,kind,part,note,x,y\n" + "".join(f"{n}.jpg,{'ab'[n % 2]},train,{n},1,2\n" for n in range(200))
    )
    source = open_source(path, label_column="kind", needs_objects=True)
    assert source.description.label_column == "kind"
    assert len(reads) < 8
    head = source.description.table.head
    assert head(["x", "part"], 2) == [{"x": "1", "part": "train"}] * 2
    assert [row["image"] for row in head(["image"], 150)] == [f"{n}.jpg" for n in range(150)]


def test_first_rows_leave_out_those_that_cannot_be_read(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3\n4,5\n6,7\n")
    table = open_csv(str(tmp_path / "t.csv"))
    assert table.head(["y"], 3) == [{"y": "2"}, {"y": "5"}]
    assert table.head(["y", "x"], 2) == [{"y": "2", "x": "1"}]
    assert table.head(["x"], 9) == [{"x": "1"}, {"x": "4"}, {"x": "6"}]
    assert table.head([], 2) == [{}]
