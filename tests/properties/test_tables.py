"""Tables that hold their images in any form of Parquet or as numbers, damaged files of them, and joins to a dataset."""

from __future__ import annotations

import csv
import io
import itertools
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_tfrecords import BuildError, build
from tests.each import each
from tests.pictures import picture
from tests.published import Published, read_failures, read_published
from tests.refusals import Refusal, refuses
from tests.writers import MEANING, WRITERS, save

NOISE = np.random.default_rng(3)


def png_of(pixels: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def pixels_of(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def read(output: Path, *inputs: Path, **settings: Any) -> Published:
    settings = {"max_failures": 1, "image_encoding": "png", "report": False, **settings}
    return read_published(build([*map(str, inputs)], str(output), quiet=True, **settings).path)


def images_of(published: Published) -> dict[str, np.ndarray]:
    """The pixels of each record in the order of the rows; of a gray image, [H, W]."""
    pixels = {record.key: pixels_of(record.values["image"][0]) for record in published.records}
    are_gray = all((one == one[..., :1]).all() for one in pixels.values())
    return {key: pixels[key][..., 0] if are_gray else pixels[key] for key in sorted(pixels)}


# Pictures of many sizes, so that pages end within and between them.
PICTURES = [NOISE.integers(0, 256, (size, size + 1, 3), np.uint8) for size in (1, 2, 30, 150, 12, 3)]
ROWS = [{"bytes": png_of(pixels), "path": f"{number}.png"} for number, pixels in enumerate(PICTURES)]
LABELS = [number % 2 for number in range(len(PICTURES))]


@each("compression", ["none", "zstd"])
@each("group", [1, 100])
@each("encoding", ["dictionary", "PLAIN", "DELTA_LENGTH_BYTE_ARRAY"])
def test_images_of_a_parquet_file_are_its_images(tmp_path, compression, group, encoding):
    options = {"use_dictionary": False, "column_encoding": {"image.bytes": encoding}} if encoding[0] < "a" else {}
    table = pa.table({"image": ROWS, "label": LABELS})
    pq.write_table(table, tmp_path / "t.parquet", compression=compression, row_group_size=group, **options)
    found = images_of(read(tmp_path / "out", tmp_path / "t.parquet"))
    assert len(found) == len(PICTURES)
    for number, pixels in enumerate(PICTURES):
        np.testing.assert_array_equal(found[f"{number:012d}"], pixels)


STRUCT = [("bytes", pa.binary()), ("path", pa.string())]


@each("kind", [
    pa.struct(STRUCT[::-1]), pa.struct([("bytes", pa.large_binary()), ("path", pa.large_string())]),
    pa.struct(STRUCT[:1]), pa.binary(), pa.large_binary(), pa.binary_view(),
], ids=str)  # fmt: skip
def test_bytes_of_every_type_are_images(tmp_path, kind):
    rows = [{field.name: row[field.name] for field in kind} for row in ROWS] if pa.types.is_struct(kind) else None
    images = pa.array(rows or [row["bytes"] for row in ROWS], kind)
    pq.write_table(pa.table({"image": images, "label": LABELS}), tmp_path / "t.parquet")
    assert len(images_of(read(tmp_path / "out", tmp_path / "t.parquet"))) == len(PICTURES)


@each("compression", ["none", "snappy"])
def test_every_row_of_a_damaged_group_is_rejected_and_the_others_are_read(tmp_path, compression):
    path = tmp_path / "t.parquet"
    options = {"row_group_size": 1, "compression": compression, "use_dictionary": False}
    pq.write_table(pa.table({"image": [ROWS[3]] * 3, "label": [0, 1, 1]}), path, **options)
    whole = path.read_bytes()
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    path.write_bytes(whole[:start] + bytes(100) + whole[start + 100 :])
    published = read(tmp_path / "out", path, layout="image")
    assert {key: why.partition(":")[0] for key, why in published.failures.items()} == {"000000000001": "corrupt"}
    assert [*images_of(published)] == ["000000000000", "000000000002"]


@each("codec", ["gzip", "zstd", "brotli"])
def test_a_page_out_of_proportion_is_not_decompressed(tmp_path, codec):
    """A file of some KB has a page of 80 MB, behind a row group without one."""
    images = [{"bytes": picture("red 8x6"), "path": None}] * 2 + [{"bytes": bytes(80_000), "path": None}] * 1000
    table = pa.table({"image": images, "label": [0, 1] * 501})
    path = tmp_path / "t.parquet"
    with pq.ParquetWriter(path, table.schema, compression=codec, use_dictionary=False) as writer:
        writer.write_table(table.slice(0, 2))
        writer.write_table(table.slice(2))
    assert path.stat().st_size < 200_000
    before = pa.default_memory_pool().bytes_allocated()
    published = read(tmp_path / "out", path)
    assert (len(published.records), len(published.failures)) == (2, 1000)
    assert all(why.startswith("corrupt: ") and "expands to" in why for why in published.failures.values())
    assert pa.default_memory_pool().bytes_allocated() - before < 1 << 20


def test_rows_of_a_page_out_of_proportion_are_rejected(tmp_path):
    save(tmp_path / "1.png", picture("red 8x6"))
    table = pa.table({"image": ["1.png"] * 2, "label": ["a" * 50_000_000] * 2})
    pq.write_table(table, tmp_path / "t.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(BuildError):
        read(tmp_path / "out", tmp_path / "t.parquet")
    failures = read_failures(tmp_path / "out")
    assert [one.startswith("invalid_row: ") and "expands to" in one for one in failures.values()] == [True, True]


# Tables of pixels.

DIGITS = NOISE.integers(0, 256, (4, 8, 8), np.uint8)
COLORS = NOISE.integers(0, 256, (4, 8, 8, 3), np.uint8)
CLASSES = [0, 1, 0, 1]


def save_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def save_pixels(path: Path, names: Sequence[str], images: np.ndarray, order: Sequence[str] | None = None) -> Path:
    """Writes a column for each pixel; `order` is that of the columns."""
    order = order or names
    pixels = [dict(zip(names, image.ravel(), strict=True)) for image in images]
    rows = [[label, *(one[name] for name in order)] for label, one in zip(CLASSES, pixels, strict=False)]
    return save_rows(path, ["label", *order], rows)


NAMES = {
    "pixel0": [f"pixel{number}" for number in range(64)],
    "Px_1": [f"Px_{number}" for number in range(1, 65)],
    "0x0": [f"{row}x{column}" for row in range(8) for column in range(8)],
    "1x1": [f"{row}x{column}" for row in range(1, 9) for column in range(1, 9)],
}


@each("name", NAMES)
@each("sort", [list, sorted, lambda names: names[::-1]], ids=["as they are", "sorted", "reversed"])
def test_the_numbers_of_columns_say_the_order_of_pixels(tmp_path, name, sort):
    path = save_pixels(tmp_path / "t.csv", NAMES[name], DIGITS, sort(NAMES[name]))
    published = read(tmp_path / "out", path)
    np.testing.assert_array_equal([*images_of(published).values()], DIGITS)
    assert "`input=t.csv` is read as pixel_table, not as csv (`source`)" in str(published.manifest["notes"])


def test_columns_hold_colors_and_oblong_images(tmp_path):
    path = save_pixels(tmp_path / "t.csv", [f"pixel{number:04d}" for number in range(192)], COLORS)
    np.testing.assert_array_equal([*images_of(read(tmp_path / "colors", path)).values()], COLORS)
    names = [f"{row}x{column}" for column in range(1, 9) for row in range(1, 17)]
    image = np.arange(128, dtype=np.uint8).reshape(16, 8)
    path = save_pixels(tmp_path / "u.csv", names, np.stack([image.T, image.T]))
    np.testing.assert_array_equal([*images_of(read(tmp_path / "oblong", path)).values()], [image, image])


@each("names", [
    [f"pixel{number}" for number in range(65) if number != 7],
    [f"pixel{number}" for number in range(2, 66)],
    [*(f"pixel{number}" for number in range(63)), "pixel05"],
    [*(f"{cell // 8}x{cell % 8}" for cell in range(63)), "8x8"],
    [*(f"pixel{number}" for number in range(63)), "1x1"],
])  # fmt: skip
def test_columns_whose_numbers_do_not_tell_the_places_of_pixels_are_refused(tmp_path, names):
    path = save_pixels(tmp_path / "t.csv", names, DIGITS)
    with refuses("unclear_pixel_columns", "input"):
        read(tmp_path / "out", path)


@each("prefix", ["p", "V", "feature_", "img2_", "attr "])
def test_columns_of_other_names_that_hold_such_numbers_are_offered_as_pixels(tmp_path, prefix):
    names = [f"{prefix}{number}" for number in range(1, 65)]
    path = save_pixels(tmp_path / "t.csv", names, DIGITS, sorted(names))
    with refuses("embedded_pixels", "input") as refused:
        read(tmp_path / "out", path)
    (offer,) = refused.value.suggestions
    np.testing.assert_array_equal([*images_of(read(tmp_path / "out", path, **offer.settings)).values()], DIGITS)


def text_of(image: np.ndarray) -> str:
    return " ".join(map(str, image.ravel()))


def test_texts_of_pixels_have_labels_and_splits(tmp_path):
    usage = ["Training", "Training", "PublicTest", "PrivateTest"]
    rows = [*zip(CLASSES, map(text_of, DIGITS), usage, strict=True)]
    published = read(tmp_path / "out", save_rows(tmp_path / "t.csv", ["emotion", "pixels", "Usage"], rows))
    np.testing.assert_array_equal([*images_of(published).values()], DIGITS)
    splits = {record.key: record.split for record in published.records}
    assert [splits[key] for key in sorted(splits)] == ["train", "train", "validation", "test"]
    notes = "; ".join(published.manifest["notes"])
    assert "splits from column 'Usage'" in notes
    assert "labels from column 'emotion'" in notes
    pq.write_table(pa.table({"label": CLASSES, "pixels": [text_of(one) for one in DIGITS]}), tmp_path / "t.parquet")
    found = images_of(read(tmp_path / "parquet", tmp_path / "t.parquet", source="pixel_table"))
    np.testing.assert_array_equal([*found.values()], DIGITS)
    save_rows(tmp_path / "u.csv", ["emotion", "other"], [[0, 1]])
    with pytest.raises(BuildError, match="the file has no column 'Usage', which the first one has"):
        read(tmp_path / "both", tmp_path / "t.csv", tmp_path / "u.csv")


def test_rows_without_pixels_are_rejected(tmp_path):
    bad = ["300 " * 64, "1.5 " * 64, "1 2 3", "", "x " * 64]
    rows = [[0, text_of(DIGITS[0])], *([1, one] for one in bad), [1, text_of(DIGITS[1][:7, :7])], ["only one cell"]]
    published = read(tmp_path / "out", save_rows(tmp_path / "t.csv", ["label", "pixels"], rows))
    assert {key: why.partition(":")[0] for key, why in published.failures.items()} == {
        f"{number:012d}": "invalid_row" for number in (1, 2, 3, 4, 5, 7)
    }
    assert [one.shape for one in images_of(published).values()] == [(8, 8), (7, 7)]


def test_other_numbers_are_no_pixels(tmp_path):
    save(tmp_path / "1.png", picture("red 8x6"))
    save(tmp_path / "2.png", picture("blue 8x6"))
    for names in (range(64), range(7, 80)):
        rows = [[f"{number}.png", "ab"[number - 1], *names] for number in (1, 2)]
        path = save_rows(tmp_path / "t.csv", ["image", "label", *map(str, names)], rows)
        found = images_of(read(tmp_path / f"out{len(names)}", path))
        assert {key: one.shape for key, one in found.items()} == {"1.png": (6, 8, 3), "2.png": (6, 8, 3)}
    zeros = [[f"{row}.png", *(int(number == row) for number in range(64))] for row in (1, 2)]
    path = save_rows(tmp_path / "u.csv", ["name", *(f"tag_{number}" for number in range(64))], zeros)
    with refuses("missing_image_column", "input", "image_column", "image_path"):
        read(tmp_path / "zeros", path)
    with refuses("missing_pixel_columns", "input"):
        read(tmp_path / "none", save_rows(tmp_path / "v.csv", ["label", "x"], [["a", "1 2 3"]]), source="pixel_table")


# Joins.


@each("is_large", [False, True])
def test_columns_that_join_a_dataset_are_added_to_its_records(tmp_path, monkeypatch, is_large):
    first = WRITERS["own_dataset"].write(tmp_path, MEANING)["input"]
    before = read_published(first)
    keys = sorted(record.key for record in before.records)
    vectors = [[number / 8, -1.0, 0.5] for number in range(len(keys))]
    # Workers read a large table for each batch of samples; its groups hold what nobody asks for.
    rows = [{"key": key, "vector": one, "score": n} for n, (key, one) in enumerate(zip(keys, vectors, strict=True))]
    more = [{"key": f"none {n}", "vector": [0.0] * (9000 if is_large else 3), "score": 0} for n in range(500)]
    random.Random(0).shuffle(rows)
    table = pa.Table.from_pylist([*rows, *more])
    pq.write_table(table, tmp_path / "t.parquet", compression="none", use_dictionary=False)
    after = read(tmp_path / "out", first, join=f"{tmp_path}/t.parquet", join_key="key")
    assert [record.key for record in after.records] == [record.key for record in before.records]
    for was, now in zip(before.records, after.records, strict=True):
        number = keys.index(now.key)
        expected = {**was.values, "score": [number], "vector": pytest.approx(vectors[number])}
        assert {**now.values} == expected
    assert [note for note in after.manifest["notes"] if "join no sample" in note] == [
        f"t.parquet: 500 of {500 + len(keys)} rows join no sample; the first has the key 'none 0'"
    ]


def test_a_table_joins_two_builds_of_one_process_by_other_columns(tmp_path):
    for name in "ab":
        save(tmp_path / f"in/{name}.png", picture("red 8x6"))
    table = save_rows(tmp_path / "t.csv", ["id", "kind"], [["a", "cat"], ["b", "dog"]])
    for label, expected in (("kind", ["cat", "dog"]), ("id", ["a", "b"])):
        joined = {"join": str(table), "join_key": "id", "label_column": label}
        found = read(tmp_path / label, tmp_path / "in", **joined, duplicates="keep").manifest
        assert found["class_names"] == expected


def test_many_rows_join_a_few(tmp_path):
    rows = [[number, f"s{number % 12}", number % 3] for number in range(900)]
    first = save_rows(tmp_path / "t.csv", ["x", "scene", "label"], rows)
    other = save_rows(tmp_path / "u.csv", ["scene", "light"], [[f"s{number}", number] for number in range(40)])
    published = read(tmp_path / "out", first, join=str(other), layout="x:int64,light:int64", image_encoding=None)
    found = {record.values["x"][0]: record.values["light"][0] for record in published.records}
    assert found == {number: number % 12 for number in range(900)}
    assert [*itertools.islice(sorted(found), 2)] == [0, 1]


def test_tables_that_do_not_fit_a_dataset_are_refused(tmp_path):
    first = WRITERS["own_dataset"].write(tmp_path, MEANING)["input"]
    key = read_published(first).records[0].key
    save_rows(tmp_path / "t.csv", ["key", "score"], [[key, 1]])
    pq.write_table(pa.table({"key": [key], "label": ["b"]}), tmp_path / "twice.parquet")
    pq.write_table(pa.table({"key": ["other"], "score": [1]}), tmp_path / "other.parquet")
    refusals = {
        "t.csv": Refusal("missing_column_type", "layout"),
        "twice.parquet": Refusal("duplicate_feature", "join"),
        "other.parquet": Refusal("unmatched_join", "join", "join_key"),
    }
    for name, refusal in refusals.items():
        with refuses(refusal):
            read(tmp_path / "out", first, join=f"{tmp_path}/{name}")
