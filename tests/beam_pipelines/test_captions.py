"""COCO's captions, from the command to a training batch."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pycocotools.coco import COCO

from beam_tfrecords import open_dataset
from beam_tfrecords.transforms.refs.ref_columns import one_by_one
from tests.annotated_inputs import PICTURES, coco_of, save_pictures, write_captions, write_coco
from tests.beam_pipelines.dataset_checks import find_all, manifest_of
from tests.source_requests import open_source
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("captions")
    save_pictures(root / "train2017")
    write_captions(root / "captions_train2017.json")
    return root


@pytest.fixture(scope="module")
def out(root, build) -> Path:
    source = [f"--input={root / 'captions_train2017.json'}", f"--image_root={root / 'train2017'}"]
    return build(root / "out", *source, "--image_size=20x30", "--resize_mode=exact")


def captions_of(name: str) -> list[str]:
    return [f"a picture of {name}", f"the same, {name}, ünd longer"]


def test_an_image_has_its_captions_in_the_order_of_the_file(out):
    records = {record["filename"]: record for record in open_dataset(out).records("train")}
    assert {name: record["captions"] for name, record in records.items()} == {
        name: captions_of(name) for name in PICTURES
    }
    assert set(records["a.jpg"]) == {"image", "captions", "filename"}
    assert manifest_of(out)["class_names"] == []
    assert "objects" not in manifest_of(out) or not manifest_of(out)["objects"]
    assert find_all(out) == []


def test_batches_have_ragged_captions(out):
    (batch,) = load(out, "train", batch_size=4)
    assert batch["captions"].shape == (4, None)
    for captions, name in zip(batch["captions"].to_list(), batch["filename"].numpy(), strict=True):
        assert [text.decode() for text in captions] == captions_of(name.decode())


def test_captions_are_found_by_the_layout_where_the_name_of_the_file_does_not_say_it(root, out, build, convert):
    path = write_captions(root / "texts.json")
    source = [f"--input={path}", f"--image_root={root / 'train2017'}", "--image_size=20x30", "--resize_mode=exact"]
    ran = convert(*source, f"--output={root / 'other'}")
    ran.refused("invalid_file", "input", "layout", says=["'bbox'"])
    other = build(root / "other", *source, "--layout=captions")
    (first,), (second,) = ([*path.glob("*.tfrecord-*")] for path in (out, other))
    assert first.read_bytes() == second.read_bytes()


def test_a_file_of_boxes_has_no_captions(root, convert):
    path = write_coco(root / "captions_instances.json")
    words = [f"--input={path}", f"--image_root={root / 'train2017'}", f"--output={root / 'boxes'}", "--dry_run"]
    ran = convert(*words)
    ran.refused("invalid_file", "input", "layout", says=["'caption'"])
    assert convert(*words, "--layout=detection").code == 0


def test_images_without_captions_have_none_and_captions_without_images_are_noted(root, build):
    content = coco_of()
    texts = [{"image_id": image["id"], "caption": "x"} for image in (*content["images"][:1], {"id": 999})]
    path = write_coco(root / "captions_few.json", annotations=texts)
    out = build(root / "few", f"--input={path}", f"--image_root={root / 'train2017'}", "--image_size=20")
    records = {record["filename"]: record["captions"] for record in open_dataset(out).records("train")}
    assert records == {"a.jpg": ["x"], "b.jpg": [], "c.jpg": [], "d.jpg": []}
    note = "captions_few.json: 1 of 2 annotations belong to no image in it, and are left out"
    assert note in manifest_of(out)["notes"]


def test_a_changed_caption_makes_the_example_anew_without_decoding(root, tmp_path, convert):
    save_pictures(tmp_path)
    path = write_captions(tmp_path / "captions.json")
    flags = [f"--input={path}", f"--output={tmp_path / 'out'}", "--versioned", "--image_size=20"]
    assert convert(*flags).code == 0
    path.write_text(path.read_text().replace("a picture of b.jpg", "nothing"))
    assert convert(*flags).code == 0
    latest = open_dataset(tmp_path / "out")
    assert latest.manifest["reuse"] == {"copied": 3, "reserialized": 1, "converted": 0}


def test_a_table_with_several_captions_has_the_same_layout(root, tmp_path, build):
    (tmp_path / "in.jsonl").write_text('{"image": "a.jpg", "captions": ["one", "two"]}\n')
    save_pictures(tmp_path)
    out = build(tmp_path / "out", f"--input={tmp_path / 'in.jsonl'}", "--layout=captions", "--image_size=20")
    (record,) = open_dataset(out).records("train")
    assert record["captions"] == ["one", "two"]


# The same captions as other readers have


@pytest.fixture
def opened_captions() -> Callable[..., dict[str, list[str]]]:
    """Lists a file; name of an image -> its captions in the references."""

    def read(path: Path, **fields) -> dict[str, list[str]]:
        source = open_source(path, columns=frozenset({"captions"}), needs_label=False, **fields)
        samples = one_by_one(source.samples())
        return {Path(sample.uri).name: list(sample.columns["captions"]) for sample in samples}

    return read


def texts_of(chance: random.Random) -> list[str]:
    """No text, or several, also the same twice, with what csv and JSON quote."""
    words = [
        "a",
        "dog",
        'says "no"',
        "with, comma",
        "ünd",
        "犬",
        "line\nbreak",
        "tab\tbed",
        "\\back",
        "'",
        "{}",
        " ends ",
    ]
    return [" ".join(chance.choices(words, k=chance.randrange(1, 9))) for _ in range(chance.choice((0, 1, 2, 5, 7)))]


def write_images(folder: Path, count: int) -> list[str]:
    save_pictures(folder / "some")
    names = []
    for number in range(count):
        source = sorted((folder / "some").iterdir())[number % len(PICTURES)]
        names.append(f"{number:03d} ü.jpg")
        (folder / "images").mkdir(exist_ok=True)
        (folder / "images" / names[-1]).write_bytes(source.read_bytes() + bytes([number]))
    return names


def built(out: Path, feature: str = "captions") -> dict[str, list[str]]:
    """Name of an image -> its texts in the records."""
    records = open_dataset(out).records("train")
    return {record["filename"]: record[feature] for record in records}


@pytest.mark.parametrize("seed", range(2))
def test_cocos_captions_are_those_that_pycocotools_reads(tmp_path, build, opened_captions, seed):
    chance = random.Random(seed)
    names = write_images(tmp_path, 30)
    ids = chance.sample(range(1 << 40), len(names))
    annotations = [{"image_id": one, "caption": text, "id": 0} for one in ids for text in texts_of(chance)]
    chance.shuffle(annotations)
    annotations = [{**one, "id": number} for number, one in enumerate(annotations)]
    images = [{"id": one, "file_name": name, "height": 9, "width": 9} for one, name in zip(ids, names, strict=True)]
    chance.shuffle(images)
    path = tmp_path / "captions_train.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations}, ensure_ascii=seed % 2 == 0))
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(path))
    expected = {
        coco.imgs[one]["file_name"]: [found["caption"] for found in coco.loadAnns(coco.getAnnIds(imgIds=[one]))]
        for one in coco.getImgIds()
    }
    assert opened_captions(path, image_root=(str(tmp_path / "images"),)) == expected
    out = build(tmp_path / "out", f"--input={path}", f"--image_root={tmp_path / 'images'}", "--image_size=16")
    assert built(out) == expected


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_captions_of_a_table_are_those_that_other_readers_have(tmp_path, build, opened_captions, form, seed):
    chance = random.Random(seed)
    rows = [{"image": f"images/{name}", "captions": texts_of(chance)} for name in write_images(tmp_path, 30)]
    path = tmp_path / f"in.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=seed % 2 == 0) + "\n" for row in rows))
        rows = list(map(json.loads, path.read_text().split("\n")[:-1]))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
        rows = pq.read_table(path).to_pylist()
    expected = {Path(row["image"]).name: row["captions"] for row in rows}
    assert opened_captions(path) == expected
    assert built(build(tmp_path / "out", f"--input={path}", "--layout=captions", "--image_size=16")) == expected


@pytest.mark.parametrize("seed", range(2))
def test_a_row_for_each_caption_of_a_csv_is_what_csv_reads(tmp_path, build, seed):
    chance = random.Random(seed)
    pairs = [(name, text) for name in write_images(tmp_path, 30) for text in dict.fromkeys(texts_of(chance))]
    chance.shuffle(pairs)
    path = tmp_path / "in.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=",;"[seed % 2]).writerows([("image", "caption"), *pairs])
    expected: dict[str, list[str]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter=",;"[seed % 2]):
            expected.setdefault(row["image"], []).append(row["caption"])
    flags = [f"--image_root={tmp_path / 'images'}", "--group_rows", "--label_type=text", "--label_column=caption"]
    found = built(build(tmp_path / "out", f"--input={path}", *flags, "--image_size=16"), "label")
    # Workers list the rows of an image in any order.
    assert {name: sorted(texts) for name, texts in found.items()} == {
        name: sorted(texts) for name, texts in expected.items()
    }
