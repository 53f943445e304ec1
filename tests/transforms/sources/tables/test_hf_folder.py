"""Folders with tables beside the images, as Hugging Face's datasets reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.refusals import refuses
from tests.source_requests import FRACTIONS

ROWS = [{"file_name": "1.jpg", "label": "cat"}, {"file_name": "in/2.jpg", "label": "dog"}]


def write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines))
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)


def summary(samples):
    return {key: (sample.uri, sample.label, sample.split) for key, sample in samples.items()}


def images_of(sample, root):
    """Name of an image -> its path."""
    return {name: locator.uri.removeprefix(f"{root}/") for name, locator in sample.images.items()}


@pytest.mark.parametrize("name", ["metadata.csv", "metadata.jsonl", "metadata.parquet"])
def test_the_table_names_images_relative_to_itself(touch, opened, listed, name):
    root = touch("1.jpg", "in/2.jpg", "in/not_listed.jpg")
    write(root / name, ROWS)
    source = opened(root, source="hf_folder")
    assert (source.name, source.description.columns) == ("hf_folder", ("file_name", "label"))
    assert summary(listed(source)) == {
        "1.jpg": (f"{root}/1.jpg", "cat", None),
        "in/2.jpg": (f"{root}/in/2.jpg", "dog", None),
    }


def test_the_tables_of_folders_are_read_together(touch, opened, listed):
    root = touch("train/1.jpg", "train/in/2.jpg", "val/1.jpg", "val/in/2.jpg")
    write(root / "train/metadata.csv", ROWS)
    write(root / "val/metadata.jsonl", ROWS)
    found = summary(listed(opened(root, source="hf_folder")))
    assert list(found) == ["train/1.jpg", "train/in/2.jpg", "val/1.jpg", "val/in/2.jpg"]
    assert all(uri == f"{root}/{key}" for key, (uri, _, _) in found.items())
    without = listed(opened(root, source="hf_folder", splits=FRACTIONS))
    assert {sample.split for sample in without.values()} == {None}


def test_a_split_column_beats_the_folders(touch, opened, listed):
    root = touch("train/1.jpg", "test/2.jpg")
    rows = [{"file_name": f"{name}.jpg", "label": "x", "split": "holdout"} for name in ("train/1", "test/2")]
    write(root / "metadata.csv", rows)
    found = listed(opened(root, source="hf_folder"))
    assert [sample.split for sample in found.values()] == ["holdout", "holdout"]


def test_keys_of_several_folders_begin_with_their_names(touch, opened, listed):
    root = touch("a/1.jpg", "a/in/2.jpg", "b/train/1.jpg", "b/train/in/2.jpg")
    write(root / "a/metadata.csv", ROWS)
    write(root / "b/train/metadata.csv", ROWS)
    found = listed(opened(root / "a", root / "b", source="hf_folder"))
    assert list(found) == ["a/1.jpg", "a/in/2.jpg", "b/train/1.jpg", "b/train/in/2.jpg"]
    assert {sample.failure for sample in found.values()} == {None}


def test_every_column_of_file_names_is_an_image_with_the_name_that_datasets_gives_it(touch, opened, listed):
    root = touch("1.jpg", "2.jpg")
    write(root / "metadata.csv", [{"left_file_name": "1.jpg", "label": "x"}])
    assert list(listed(opened(root, source="hf_folder"))) == ["1.jpg"]
    write(root / "metadata.csv", [{"left_file_name": "1.jpg", "right_file_name": "2.jpg", "label": "x"}])
    assert images_of(listed(opened(root, source="hf_folder"))["1.jpg"], root) == {"left": "1.jpg", "right": "2.jpg"}
    one = listed(opened(root, source="hf_folder", image_column="right_file_name"))["2.jpg"]
    assert images_of(one, root) == {"image": "2.jpg"}
    write(root / "metadata.csv", [{"after_file_name": "1.jpg", "file_name": "2.jpg", "label": "x"}])
    source = opened(root, source="hf_folder")
    assert source.description.images == {"image": False, "after": False}
    assert list(images_of(listed(source)["2.jpg"], root)) == ["image", "after"]


@pytest.mark.parametrize("name", ["metadata.jsonl", "metadata.parquet"])
def test_lists_of_file_names_are_lists_of_images(name, touch, opened, listed):
    root = touch("1.jpg", "in/2.jpg", "3.jpg")
    rows = [
        {"file_names": [], "view_file_names": ["3.jpg"], "label": "x"},
        {"file_names": ["1.jpg", "in/2.jpg"], "view_file_names": [], "label": "y"},
        {"file_names": ["1.jpg", "nowhere.jpg"], "view_file_names": None, "label": "z"},
    ]
    write(root / name, rows)
    source = opened(root, source="hf_folder", key_column="label")
    assert source.description.images == {"images": True, "view": True}
    found = listed(source)
    assert images_of(found["x"], root) == {"view[0]": "3.jpg"}
    assert images_of(found["y"], root) == {"images[0]": "1.jpg", "images[1]": "in/2.jpg"}
    assert found["z"].failure == ("invalid_row", "column 'view_file_names' is empty")


def test_a_column_of_masks_is_no_image(touch, opened, listed):
    root = touch("1.jpg", "1.png")
    write(root / "metadata.csv", [{"file_name": "1.jpg", "mask_file_name": "1.png", "label": "x"}])
    source = opened(root, source="hf_folder")
    assert "mask_file_name" not in source.description.used
    assert images_of(listed(source)["1.jpg"], root) == {"image": "1.jpg"}
    masked = listed(opened(root, source="hf_folder", needs_mask=True))["1.jpg"]
    assert images_of(masked, root) == {"image": "1.jpg", "mask": "1.png"}
    with refuses("mask_as_image", "mask_column", "layout", says=["'mask'", "mask_column=mask_file_name"]):
        opened(root, source="hf_folder", image_column="file_name,mask_file_name")


def test_an_image_that_is_missing_or_outside_is_a_failure(touch, opened, listed):
    root = touch("in/1.jpg", "2.jpg")
    write(root / "in/metadata.csv", [{"file_name": name, "label": "x"} for name in ("1.jpg", "../2.jpg", "3.jpg")])
    found = listed(opened(root / "in", source="hf_folder"))
    assert [sample.failure and sample.failure[0] for sample in found.values()] == [None, "outside_root", "unreadable"]


def test_what_does_not_fit_is_refused(touch, opened):
    root = touch("1.jpg")
    with refuses("not_found", "input", says=["metadata.csv", "metadata.jsonl", "metadata.parquet"]):
        opened(root, source="hf_folder")
    write(root / "metadata.csv", [{"name": "1.jpg", "label": "x"}])
    with refuses("missing_image_column", "input", "image_column", says=["'file_name'", "it has: name, label"]):
        opened(root, source="hf_folder")
    with refuses("setting_not_applicable", "image_path", "input", says=["image_path={a}", "hf_folder"]):
        opened(root, source="hf_folder", image_path="{a}")
    write(root / "metadata.jsonl", ROWS)
    with refuses("several_metadata_files", says=["metadata.csv", "metadata.jsonl"]):
        opened(root, source="hf_folder")
    with refuses("not_a_folder", "input", "source", says=["source=hf_folder"]):
        opened(root / "metadata.csv", source="hf_folder")
