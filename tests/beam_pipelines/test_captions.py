"""COCO's captions, from the command to a training batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_tfrecords import load, open_dataset
from tests.annotated_inputs import PICTURES, coco_of, save_pictures, write_captions, write_coco
from tests.beam_pipelines.dataset_checks import find_all, manifest_of


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


def captions_of(name: str) -> list[bytes]:
    return [f"a picture of {name}".encode(), f"the same, {name}, ünd longer".encode()]


def test_an_image_has_its_captions_in_the_order_of_the_file(out):
    records = {record["filename"].decode(): record for record in open_dataset(out).records("train")}
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
        assert captions == captions_of(name.decode())


def test_captions_are_found_by_the_layout_where_the_name_of_the_file_does_not_say_it(root, out, build, convert):
    path = write_captions(root / "texts.json")
    source = [f"--input={path}", f"--image_root={root / 'train2017'}", "--image_size=20x30", "--resize_mode=exact"]
    ran = convert(*source, f"--output={root / 'other'}")
    assert ran.code == 2
    assert "none of its annotations has a `bbox`; if they are captions, say --layout=captions" in ran.err
    other = build(root / "other", *source, "--layout=captions")
    (first,), (second,) = ([*path.glob("*.tfrecord-*")] for path in (out, other))
    assert first.read_bytes() == second.read_bytes()


def test_a_file_of_boxes_has_no_captions(root, convert):
    path = write_coco(root / "captions_instances.json")
    words = [f"--input={path}", f"--image_root={root / 'train2017'}", f"--output={root / 'boxes'}", "--dry_run"]
    ran = convert(*words)
    assert ran.code == 2
    assert "an annotation has no `caption`" in ran.err
    assert "if these are boxes, say --layout=detection" in ran.err
    assert convert(*words, "--layout=detection").code == 0


def test_images_without_captions_have_none_and_captions_without_images_are_noted(root, build):
    content = coco_of()
    texts = [{"image_id": image["id"], "caption": "x"} for image in (*content["images"][:1], {"id": 999})]
    path = write_coco(root / "captions_few.json", annotations=texts)
    out = build(root / "few", f"--input={path}", f"--image_root={root / 'train2017'}", "--image_size=20")
    records = {record["filename"].decode(): record["captions"] for record in open_dataset(out).records("train")}
    assert records == {"a.jpg": [b"x"], "b.jpg": [], "c.jpg": [], "d.jpg": []}
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
    assert record["captions"] == [b"one", b"two"]
