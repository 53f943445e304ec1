"""Tables beside each other: which columns join, and what becomes of samples without a row."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.transforms.sources.tables import joined_table
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.joined_opening import open_joins
from beam_tfrecords.transforms.sources.tables.joined_rows import join_tables
from beam_tfrecords.transforms.sources.tables.table import UnjoinedRow
from beam_tfrecords.transforms.sources.tables.table_settings import JoinSettings
from tests.refusals import Refusal, refuses

IMAGES = [f"a/{number:03d}.jpg" for number in range(40)]


@pytest.fixture
def table(tmp_path):
    """Writes a csv table, or a text without a header, and returns its path."""

    def write(name, rows, header=""):
        lines = [*([header] if header else []), *rows]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        return str(tmp_path / name)

    return write


def join(base, *others, keys=("key",)):
    (joined,) = join_tables([open_table(base)], open_joins(JoinSettings(others, keys)))
    return joined


FORMS = {
    "the same paths": lambda image: image,
    "paths with a dot": lambda image: f"./{image}",
    "paths of another machine": lambda image: f"/data/{image}",
    "paths of Windows": lambda image: f"C:\\{image}".replace("/", "\\"),
    "file names": lambda image: image.split("/")[1],
    "stems": lambda image: image.split("/")[1].split(".")[0],
    "other extensions": lambda image: image.replace(".jpg", ".png"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("header", ["image_id,patient,score", "path,patient,score"])
def test_rows_join_by_the_names_of_images_whatever_the_columns_are_called(table, form, header):
    base = table("base.csv", [f"{image},{number % 2}" for number, image in enumerate(IMAGES)], "image,label")
    other = table("other.csv", [f"{FORMS[form](one)},p{n},{n / 2}" for n, one in enumerate(IMAGES)][::-1], header)
    joined = join(base, other)
    assert [row["patient"] for row in joined.rows(["patient"])] == [f"p{number}" for number in range(40)]
    assert joined.columns == ("image", "label", *header.split(",")[1:])


def test_numbers_of_a_list_join_those_of_a_table_without_a_header(table):
    base = table("images.txt", [f"{number + 1} {image}" for number, image in enumerate(IMAGES)])
    boxes = table("bounding_boxes.txt", [f"{number + 1} {number}.0 2.0 30.0 9.0" for number in range(40)])
    parts = table("part.txt", [f"{number + 1} {number % 3}" for number in range(40)])
    joined = join(base, boxes, parts)
    assert joined.columns[3:] == (
        "bounding_boxes_1",
        "bounding_boxes_2",
        "bounding_boxes_3",
        "bounding_boxes_4",
        "part",
    )
    row = joined.head(["bounding_boxes_1", "part"])[7]
    assert row == {"bounding_boxes_1": "7.0", "part": "1"}


def test_a_sample_joins_many_to_one_and_types_stay(table, tmp_path):
    base = {"image": [f"{number}.jpg" for number in range(30)], "scene": [f"s{number % 10}" for number in range(30)]}
    pq.write_table(pa.table(base), tmp_path / "base.parquet")
    scenes = {"scene": [f"s{number}" for number in range(10)], "light": [number / 4 for number in range(10)]}
    pq.write_table(pa.table(scenes), tmp_path / "scenes.parquet")
    joined = join(str(tmp_path / "base.parquet"), str(tmp_path / "scenes.parquet"))
    assert joined.column_types == {"image": "bytes", "scene": "bytes", "light": "float"}
    again = pickle.loads(pickle.dumps(joined))
    assert [row["light"] for row in again.rows(["light"])] == scenes["light"] * 3


def test_many_rows_of_a_few_images_join(table):
    base = table("base.csv", [f"{IMAGES[number % 12]},{number % 3}" for number in range(900)], "image,label")
    joined = join(base, table("other.csv", [f"{image},{number}" for number, image in enumerate(IMAGES)], "image,score"))
    assert [row["score"] for row in joined.rows(["score"])][:13] == [*map(str, range(12)), "0"]


@pytest.mark.parametrize("held", [True, False])
def test_missing_and_different_rows_are_named_and_the_others_counted(table, monkeypatch, held):
    monkeypatch.setattr(joined_table, "_HELD_BYTES", 1 << 20 if held else 0)
    base = table("base.csv", IMAGES, "image")
    rows = [f"{image},{number}" for number, image in enumerate(IMAGES)]
    other = table("other.csv", [*rows[1:], f"{IMAGES[3]},9", rows[4], "b/x.jpg,1", "b/y.jpg,1"], "image,score")
    joined = join(base, other)
    found = [*joined.rows(["image", "score"])]
    errors = {row["image"]: row.error for row in found if isinstance(row, UnjoinedRow)}
    assert {name: (one.reason.value, one.detail) for name, one in errors.items()} == {
        IMAGES[0]: ("value_missing", f"other.csv has no row with image {IMAGES[0]!r}"),
        IMAGES[3]: ("value_missing", f"other.csv has different rows with image {IMAGES[3]!r}"),
    }
    assert [*joined.notes] == ["other.csv: 2 of 43 rows join no sample; the first has the key 'b/x.jpg'"]
    assert not any(isinstance(row, UnjoinedRow) for row in joined.rows(["image"]))


def test_columns_of_the_same_name_are_named_after_their_table(table):
    base = table("base.csv", [f"{image},1" for image in IMAGES], "image,label")
    joined = join(base, table("doctor.csv", [f"{image},2" for image in IMAGES], "image,label"))
    assert joined.columns == ("image", "label", "doctor_label")
    assert joined.head(["label", "doctor_label"])[0] == {"label": "1", "doctor_label": "2"}


NUMBERS = [f"{number},{number + 3},{number % 5}" for number in range(40)]


@pytest.mark.parametrize(
    ("name", "header", "rows", "keys", "refusal"),
    [
        (
            "others",
            "image,score",
            [f"{image[:-4]}x.jpg,1" for image in IMAGES],
            (),
            Refusal("unmatched_join", "join", "join_key"),
        ),
        (
            "images of another split",
            "image,score",
            [f"test/{image.split('/')[1]},1" for image in IMAGES],
            (),
            Refusal("unmatched_join", "join", "join_key", says=["'test/000.jpg'", "'a/000.jpg'"]),
        ),
        (
            "boxes",
            "image,x",
            [f"{image},{number}" for image in IMAGES for number in range(3)],
            (),
            Refusal("several_rows", "input", "join", says=["120 rows for 40", "one row for each sample"]),
        ),
        (
            "numbers",
            "id,other_id,class",
            NUMBERS,
            (),
            Refusal("unclear_join_key", "join", "join_key", says=["id, other_id"]),
        ),
        (
            "no such key",
            "id,score",
            ["1,2"],
            ("uid",),
            Refusal("unknown_column", "join_key", says=["'uid'", "id, score"]),
        ),
        ("names only", "", IMAGES, (), Refusal("missing_columns", "join", says=["SPLIT=LIST"])),
        ("not there", "", [], (), Refusal("not_found", "join")),
    ],
)
def test_a_table_that_does_not_join_is_refused(table, name, header, rows, keys, refusal):
    base = table("base.csv", [f"{image},{number},{number}" for number, image in enumerate(IMAGES)], "image,number,row")
    other = table("other.csv" if header else "other.txt", rows, header) if rows else "/nowhere.csv"
    with refuses(refusal):
        join(base, other, keys=keys or ("key",))


def test_a_key_of_numbers_that_the_request_names_joins(table):
    base = table("base.csv", [f"{image},{number}" for number, image in enumerate(IMAGES)], "image,number")
    joined = join(base, table("other.csv", NUMBERS, "id,other_id,class"), keys=("id",))
    assert [row["class"] for row in joined.head(["class"])] == [str(number % 5) for number in range(40)]


def test_file_names_that_are_in_two_folders_are_refused(table):
    base = table("base.csv", [*IMAGES, "b/003.jpg"], "image")
    other = table("other.csv", [f"{image.split('/')[1]},1" for image in IMAGES], "file,score")
    with refuses("shared_key", "join", says=["file name", "1 of them"]):
        join(base, other)


def test_lists_of_splits_are_one_column(table):
    base = table("base.csv", IMAGES, "image")
    train, test = table("a.txt", IMAGES[:30]), table("b.txt", [image.split("/")[1] for image in IMAGES[30:]])
    joined = join(base, f"train={train}", f"test={test}")
    assert [row["split"] for row in joined.head(["split"])] == ["train"] * 30 + ["test"] * 10
