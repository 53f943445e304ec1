"""Vectors: several columns, or a column of lists of one length, as one feature."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_tfrecords
from beam_tfrecords.errors import BuildError
from tests.beam_pipelines.dataset_checks import find_all, manifest_of, shards_of
from tests.beam_pipelines.test_heads import SOURCES, make, write_csv
from tests.refusals import refuses

pytestmark = pytest.mark.tensorflow

COUNT = 12


def rows_of(count: int = COUNT, **cells: object) -> list[dict[str, object]]:
    """Rows with columns in the order of texts: x0, x1, x10, x11, x2."""
    names = sorted(f"x{number}" for number in range(count))
    rows = [{"path": f"{row}.png", **{name: row + int(name[1:]) / 4 for name in names}} for row in range(3)]
    rows[1] |= cells
    return rows


def layout_of(field: str = f"columns.x0..x{COUNT - 1}", kind: str = "float", **words: object) -> dict[str, object]:
    return {"image": "image.encoded", "filename": "filename", "points": {"field": field, "type": kind, **words}}


def vectors(dataset: beam_tfrecords.Dataset) -> dict[str, list[float]]:
    return {record["filename"]: record["points"].tolist() for record in dataset.records("train")}


EXPECTED = {f"{row}.png": [row + number / 4 for number in range(COUNT)] for row in range(3)}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_columns_are_one_feature_in_the_order_of_their_numbers(tmp_path, form):
    table = write_csv(tmp_path, rows_of())
    if form == "jsonl":
        table = tmp_path / "table.jsonl"
        table.write_text("".join(f"{json.dumps(row)}\n" for row in rows_of()))
    if form == "parquet":
        table = tmp_path / "table.parquet"
        pq.write_table(pa.Table.from_pylist(rows_of()), table)
    dataset = make(table, tmp_path / "out", layout=layout_of())
    assert vectors(dataset) == EXPECTED
    assert dataset.features["points"].length == COUNT
    features = json.loads((tmp_path / "out/features.json").read_text())["featuresDict"]["features"]
    assert features["points"]["tensor"] == {"shape": {"dimensions": ["12"]}, "dtype": "float32", "encoding": "none"}
    assert find_all(tmp_path / "out") == []


@pytest.mark.parametrize("source", ["hf_parquet", "webdataset", "tfrecord"])
def test_every_source_with_columns_has_vectors(tmp_path, source):
    layout = layout_of("columns.age,age2", "int64")
    with refuses("unknown_column", "layout", says=["age2"]):
        make(SOURCES[source](tmp_path), tmp_path / "out", layout=layout, source=source)
    dataset = make(SOURCES[source](tmp_path), tmp_path / "out", layout=layout_of("columns.age", "int64"), source=source)
    assert sorted(record["points"].tolist() for record in dataset.records("train")) == [[0], [1], [2], [2], [3], [3]]


def test_columns_between_two_are_those_of_the_table(tmp_path):
    rows = [{"path": "0.png", "left_x": 1, "left_y": 2, "nose_x": 3, "other": 9}]
    dataset = make(write_csv(tmp_path, rows), tmp_path / "out", layout=layout_of("columns.left_x..nose_x", "int64"))
    (record,) = dataset.records("train")
    assert (record["points"].tolist(), record["points"].dtype) == ([1, 2, 3], np.int64)
    assert [one["field"] for one in manifest_of(tmp_path / "out")["ledger"]] == ["other"]


@pytest.mark.parametrize(
    ("cell", "reason"),
    [("", "value_missing"), (" ", "value_missing"), ("nan", "value_missing"), ("abc", "wrong_type")],
)
def test_a_cell_that_is_no_number_rejects_its_row_and_names_the_column(tmp_path, cell, reason):
    make(write_csv(tmp_path, rows_of(x7=cell)), tmp_path / "out", layout=layout_of(), max_failures=0.5)
    (failure,) = map(json.loads, (tmp_path / "out/failures.jsonl").read_text().splitlines())
    assert (failure["key"], failure["reason"]) == ("1.png", reason)
    assert failure["detail"].startswith("column 'x7': feature 'points'")


def test_a_fraction_is_no_integer(tmp_path):
    with pytest.raises(beam_tfrecords.errors.BuildError, match="nothing was published"):
        make(write_csv(tmp_path, rows_of()), tmp_path / "out", layout=layout_of(kind="int64"))


@pytest.mark.parametrize(
    ("field", "code", "says"),
    [
        ("columns.x0..x99", "unknown_column", "x99"),
        ("columns.x0..y", "unknown_column", "y"),
        ("columns.x11..x0", "invalid_layout", "before"),
    ],
)
def test_a_range_that_the_table_lacks_is_refused_before_anything_starts(tmp_path, field, code, says):
    with refuses(code, "layout", says=[says]):
        make(write_csv(tmp_path, rows_of()), tmp_path / "out", layout=layout_of(field))
    assert not (tmp_path / "out").exists()


def test_a_missing_column_in_the_middle_is_refused(tmp_path):
    rows = [{name: value for name, value in row.items() if name != "x5"} for row in rows_of()]
    with refuses("unknown_column", "layout", says=["'x5'"]):
        make(write_csv(tmp_path, rows), tmp_path / "out", layout=layout_of())


@pytest.mark.parametrize(
    "words",
    [
        {"field": "columns.x0..x1"},
        {"field": "columns.x0..x1", "type": "bytes"},
        {"field": "columns.x0..x1", "type": "float", "several": True},
        {"field": "columns.x0..", "type": "float"},
        {"field": "column.x0", "type": "float", "length": -1},
        {"field": "column.x0", "type": "bytes", "length": 2},
        {"field": "image.height", "type": "int64", "length": 2},
        {"field": "column.x0", "type": "float", "length": 2, "columns": ["a", "b"]},
    ],
)
def test_a_vector_is_of_numbers_in_columns(words):
    with refuses("invalid_layout", "layout"):
        beam_tfrecords.build(input="in", output="out", layout={"points": words})


def test_lists_of_one_length_are_vectors(tmp_path):
    write_csv(tmp_path, rows_of())
    table = tmp_path / "table.jsonl"
    lists = [[1.5, 2, 3], [4, 5], [6, None, 7], [8, 9, 10]]
    rows = [{"path": f"{number % 3}.png", "id": f"r{number}", "list": one} for number, one in enumerate(lists)]
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    layout = {**layout_of("column.list", length=3), "filename": "key"}
    dataset = make(table, tmp_path / "out", layout=layout, key_column="id", max_failures=0.5)
    assert vectors(dataset) == {"r0": [1.5, 2, 3], "r3": [8, 9, 10]}
    failures = sorted(json.loads(line)["detail"] for line in (tmp_path / "out/failures.jsonl").read_text().splitlines())
    assert "2 values where 3 are expected" in failures[1]
    assert failures[0].startswith("column.list, value 1: feature 'points'")


@pytest.mark.nightly
def test_vectors_are_batched_as_arrays(tmp_path):
    from beam_tfrecords import load

    dataset = make(write_csv(tmp_path, rows_of()), tmp_path / "out", layout=layout_of())
    (batch,) = load(dataset, "train", batch_size=3, decode=False)
    assert batch["points"].shape == (3, COUNT)
    assert sorted(batch["points"].numpy().tolist()) == sorted(EXPECTED.values())


def test_a_dataset_with_vectors_is_an_input(tmp_path):
    make(write_csv(tmp_path, rows_of()), tmp_path / "first", layout=layout_of())
    made = beam_tfrecords.build(input=str(tmp_path / "first"), output=str(tmp_path / "second"), quiet=True)
    assert vectors(made) == EXPECTED
    assert shards_of(tmp_path / "second").keys()
    layout = layout_of("columns.x0..x3")
    part = beam_tfrecords.build(input=str(tmp_path / "first"), output=str(tmp_path / "part"), layout=layout, quiet=True)
    assert vectors(part) == {name: values[:4] for name, values in EXPECTED.items()}


def test_only_rows_with_other_numbers_are_converted_again(tmp_path):
    table = write_csv(tmp_path, rows_of())
    make(table, tmp_path / "out", layout=layout_of(), versioned=True)
    table.write_text(table.read_text().replace("1.25", "1.75", 1))
    second = make(table, tmp_path / "out", layout=layout_of(), versioned=True)
    changes = json.loads((tmp_path / "out" / second.path.rsplit("/", 1)[-1] / "changes.json").read_text())["changes"]
    assert changes["copied"]["samples"] == 2
    assert sum(values != EXPECTED[name] for name, values in vectors(second).items()) == 1


def test_a_function_makes_the_columns_of_a_vector(tmp_path):
    layout = layout_of("columns.mean0..mean2")
    dataset = make(write_csv(tmp_path, rows_of()), tmp_path / "out", layout=layout, map=add_means)
    assert sorted(vectors(dataset).values()) == [[20, 20, 20], [50, 50, 50], [80, 80, 80]]


def add_means(sample: beam_tfrecords.Sample) -> beam_tfrecords.Sample:
    means = {f"mean{place}": float(sample.image[..., place].mean()) for place in range(3)}
    return sample.replace(columns={**sample.columns, **means})


def test_people_see_the_length(tmp_path, run):
    make(write_csv(tmp_path, rows_of()), tmp_path / "out", layout=layout_of())
    assert "columns.x0..x11 (12 values)" in run("inspect", f"--dataset={tmp_path / 'out'}").out
    assert "float, 12 values" in (tmp_path / "out/README.md").read_text()


# Points that move with the image

PLACES = {"eye_x": 20, "eye_y": 10, "nose_x": 30, "nose_y": 20, "ear_x": 5, "ear_y": 38}


def write_places(root, save, picture, header=None, *, factor=(1, 1), count=3):
    """A table of points in images of 60 x 40 pixels (width x height)."""
    names = header or list(PLACES)
    for number in range(count):
        save(root / f"{number}.png", picture(number, 40, 60))
    cells = [str(PLACES[name] * factor[name.endswith("y")]) for name in names]
    rows = [",".join([f"{number}.png", *cells]) for number in range(count)]
    (root / "faces.csv").write_text("\n".join([",".join(["path", *names]), *rows]) + "\n")
    return root / "faces.csv"


def points_layout(field="columns.eye_x..ear_y", **words):
    return layout_of(field, moves="points", **words)


CROPPED = {"eye": [0.25, 0.25], "nose": [0.5, 0.5], "ear": [-0.125, 0.95]}
CROP = {"image_size": 40, "resize_mode": "crop", "image_encoding": "png"}


@pytest.mark.parametrize("header", [list(PLACES), [*list(PLACES)[::2], *list(PLACES)[1::2]]])
def test_points_move_with_the_image_whatever_their_order(header, tmp_path, save, picture):
    """In place, x and y of each point; the last is left of the crop, and stays."""
    table = write_places(tmp_path, save, picture, header)
    dataset = make(table, tmp_path / "out", layout=points_layout(f"columns.{','.join(header)}"), **CROP)
    expected = [CROPPED[name.split("_")[0]][name.endswith("y")] for name in header]
    assert list(vectors(dataset).values()) == [pytest.approx(expected)] * 3
    assert dataset.features["points"].moves == "points"
    assert find_all(tmp_path / "out") == []


def test_a_list_of_points_and_shares_move_too(tmp_path, save, picture):
    write_places(tmp_path, save, picture)
    row = {"path": "0.png", "places": [*PLACES.values()]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    layout = points_layout("column.places", length=6)
    listed = make(tmp_path / "rows.jsonl", tmp_path / "listed", layout=layout, **CROP)
    table = write_places(tmp_path, save, picture, factor=(1 / 60, 1 / 40))
    shares = make(table, tmp_path / "shares", layout={**points_layout(), **{
        "points": {**points_layout()["points"], "moves": "shares"}
    }}, **CROP)  # fmt: skip
    expected = pytest.approx([side for point in CROPPED.values() for side in point])
    assert [*vectors(listed).values(), *vectors(shares).values()] == [expected] * 4


def test_shares_that_are_said_to_be_pixels_reject_their_samples(tmp_path, save, picture):
    table = write_places(tmp_path, save, picture, factor=(1 / 60, 1 / 40))
    with pytest.raises(BuildError, match="3 of 3 samples failed"):
        make(table, tmp_path / "out", layout=points_layout(), **CROP)
    assert "write 'moves: shares'" in (tmp_path / "out/failures.jsonl").read_text()


@pytest.mark.parametrize("mode", ["crop", "pad", "exact"])
def test_a_reader_moves_points_as_a_build_does(mode, tmp_path, save, picture):
    from tests.tensorflow import load

    table = write_places(tmp_path, save, picture)
    stored = make(table, tmp_path / "out", layout=points_layout(), image_encoding="png")
    built = make(
        table, tmp_path / "built", layout=points_layout(), image_encoding="png", image_size=(30, 24), resize_mode=mode
    )
    ours = stored.records("train", image_size=(30, 24), resize_mode=mode)
    theirs = load(stored.path, "train", image_size=(30, 24), resize_mode=mode)
    expected = next(iter(vectors(built).values()))
    for record in (*ours, *theirs):
        assert [float(side) for side in record["points"]] == pytest.approx(expected, abs=1e-5)


def test_points_of_a_dataset_move_on_and_others_do_not(tmp_path, save, picture):
    table = write_places(tmp_path, save, picture)
    first = make(table, tmp_path / "first", layout=points_layout(), image_encoding="png", name="x")
    again = make(Path(first.path), tmp_path / "again", layout=points_layout(), name="x", **CROP)
    expected = pytest.approx([side for point in CROPPED.values() for side in point])
    assert list(vectors(again).values()) == [expected] * 3
    still = make(table, tmp_path / "still", layout=layout_of("columns.eye_x..ear_y"), image_size=20, name="x")
    with pytest.raises(BuildError, match="3 of 3 samples failed"):
        make(Path(still.path), tmp_path / "lost", layout=points_layout(), name="x")
    assert "belong to another image" in (tmp_path / "lost/failures.jsonl").read_text()


def test_only_images_of_new_points_are_not_encoded_again(tmp_path, save, picture):
    table = write_places(tmp_path, save, picture)
    make(table, tmp_path / "out", layout=points_layout(), versioned=True, **CROP)
    text = table.read_text().replace("0.png,20", "0.png,22")
    table.write_text(text)
    second = make(table, tmp_path / "out", layout=points_layout(), versioned=True, **CROP)
    assert second.manifest["reuse"] == {"copied": 2, "reserialized": 1, "converted": 0}
    assert vectors(second)["0.png"][:2] == pytest.approx([0.3, 0.25])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"type": "int64"}, "'type: float'"),
        ({"moves": "boxes"}, "'boxes'"),
        ({"field": "columns.eye_x..ear_x"}, "5 columns"),
        ({"field": "column.eye_x"}, "of a vector"),
    ],
)
def test_only_pairs_of_numbers_are_points(words, says, tmp_path, save, picture):
    table = write_places(tmp_path, save, picture)
    layout = {"image": "image.encoded", "points": {**points_layout()["points"], **words}}
    with refuses("invalid_layout", "layout", says=[says]):
        make(table, tmp_path / "out", layout=layout)
