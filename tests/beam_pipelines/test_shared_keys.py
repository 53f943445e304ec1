"""Rows of one image are in one split, or an error names the image."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords.transforms.listing import shared_keys
from beam_tfrecords.transforms.listing.listing import ListPlan, write_listing
from beam_tfrecords.transforms.listing.shared_keys import find_shared_key
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from tests.beam_pipelines.dataset_checks import manifest_of

BOX = ("1", "1", "6", "6")


def _write(folder, rows):
    """Writes a table of boxes: (image, label, split, group) of each row."""
    folder.mkdir()
    for name in {row[0] for row in rows}:
        Image.fromarray(np.full((8, 8, 3), 90, np.uint8)).save(folder / name)
    with (folder / "boxes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "label", "split", "year", "xmin", "ymin", "xmax", "ymax"])
        writer.writerows([*row, *BOX] for row in rows)
    return f"--input={folder}/boxes.csv"


ROWS = [("a.png", "cat", "train", 1), ("b.png", "dog", "test", 2), ("a.png", "dog", "test", 3)]


def test_boxes_of_one_image_in_two_splits_are_refused(tmp_path, convert):
    flag = _write(tmp_path / "in", ROWS)
    refusal = convert(flag, f"--output={tmp_path}/out", "--name=x").refused(
        "shared_key", says=["a.png", "test and train"]
    )
    assert [one.settings for one in refusal.suggestions] == [{"split_column": ""}]
    assert convert(flag, f"--output={tmp_path}/out", "--name=x", "--split_column=").code == 0
    assert manifest_of(tmp_path / "out")["records"] == 2


def test_a_dry_run_refuses_them_too(tmp_path, convert):
    flag = _write(tmp_path / "in", ROWS)
    assert convert(flag, f"--output={tmp_path}/out", "--dry_run").code == 2


@pytest.mark.parametrize("flags", [["--split_column=split"], ["--splits=train=train,test=test"]])
def test_settings_that_name_the_splits_do_not_divide_an_image_either(tmp_path, convert, flags):
    flag = _write(tmp_path / "in", ROWS)
    convert(flag, f"--output={tmp_path}/out", *flags).refused("shared_key", says=["a.png"])


def test_groups_of_rows_may_divide_no_image(tmp_path, convert):
    rows = [(f"{number % 20:02d}.png", "cat", "", number) for number in range(200)]
    flag = _write(tmp_path / "in", rows)
    words = [flag, "--split_column=", "--splits=train=0.5,test=0.5", f"--output={tmp_path}/out", "--class_names=cat"]
    refusal = convert(*words, "--group_column=year").refused("shared_key", says=[".png"])
    assert "group_column" in refusal.suggestions[0].settings
    assert convert(*words).code == 0


def test_boxes_of_one_image_in_one_split_go_together(tmp_path, convert):
    flag = _write(
        tmp_path / "in", [("a.png", "cat", "train", 1), ("b.png", "dog", "test", 2), ("a.png", "dog", "train", 3)]
    )
    assert convert(flag, f"--output={tmp_path}/out", "--name=x").code == 0


rows = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["train", "test"])), min_size=1, max_size=30)


@given(rows, st.sampled_from([3, 1000]))
def test_a_key_of_several_splits_is_found_whatever_the_memory(tmp_path_factory, found, most):
    folder = str(tmp_path_factory.mktemp("listing"))
    refs = [SampleRef(key, {}, split=split) for key, split in found]
    listing = write_listing(refs, folder, plan=ListPlan())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_keys, "_MOST_HASHES", most)
        shared = find_shared_key(listing)
    splits = {key: {split for other, split in found if other == key} for key, _ in found}
    several = [key for key, of in splits.items() if len(of) > 1]
    assert (shared is not None) == bool(several)
    assert shared is None or (shared[0] in several and shared[1] == ["test", "train"])


@pytest.mark.parametrize("written", ["a.png", "./a.png"])
@pytest.mark.parametrize("columns", ["image,label", "image,label,xmin,ymin,xmax,ymax"])
def test_one_image_in_tables_of_two_splits_is_refused(tmp_path, convert, columns, written):
    flags = [f"--output={tmp_path}/out", "--name=x"]
    box = ",1,1,6,6" if "xmin" in columns else ""
    for split, names in {"train": ("a.png", "b.png", "d.png"), "test": (written, "c.png", "e.png")}.items():
        rows = [f"{name},{label}{box}" for name, label in zip(names, ("cat", "dog", "cat"), strict=True)]
        (tmp_path / f"{split}_rows.csv").write_text("\n".join([columns, *rows]))
        flags.append(f"--input={split}={tmp_path}/{split}_rows.csv")
    for number, name in enumerate("abcde"):
        Image.fromarray(np.full((8, 8, 3), 40 * number, np.uint8)).save(tmp_path / f"{name}.png")
    convert(*flags).refused("shared_key", *([] if box else ["duplicates"]), says=["a.png", "test and train"])
    assert convert(*flags, "--duplicates=drop").code == (2 if box else 0)


def test_rows_with_a_key_of_their_own_may_share_an_image(tmp_path, convert):
    flag = _write(
        tmp_path / "in", [("a.png", "cat", "train", 1), ("b.png", "dog", "test", 2), ("a.png", "dog", "test", 3)]
    )
    words = [flag, f"--output={tmp_path}/out", "--name=x", "--key_column=year", "--layout=tfds"]
    assert convert(*words).code == 0
