"""The folders that images are looked for in by their names: the same rule for annotations and for tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.annotated_inputs import PICTURES, save_pictures, write_captions, write_coco
from tests.refusals import refuses

NAMES = sorted(PICTURES)


def write_csv(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("image,label\n" + "".join(f"{name},{name[0]}\n" for name in NAMES))
    return path


def write_jsonl(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"image": name, "label": name[0]}) + "\n" for name in NAMES))
    return path


def write_parquet(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({"image": NAMES, "label": [name[0] for name in NAMES]}), path)
    return path


FORMS = [
    (write_coco, "instances_{}.json"),
    (write_captions, "captions_{}.json"),
    (write_csv, "{}.csv"),
    (write_jsonl, "{}.jsonl"),
    (write_parquet, "{}.parquet"),
]


@pytest.fixture(params=FORMS, ids=lambda form: form[1])
def write(request, tmp_path):
    """Writes a file that names all pictures, given its folder and a word of its name."""
    writer, name = request.param
    return lambda word, folder=".": writer(tmp_path / folder / name.format(word))


@pytest.fixture
def open_form(opened):
    """As `opened`, with the layout that the name of the file means."""
    return lambda *paths, **fields: opened(
        *paths, columns=frozenset({"captions"} if "captions" in str(paths[0]) else ()), **fields
    )


@pytest.fixture
def places(open_form, listed, tmp_path):
    """Where the images are, below tmp_path, in the order of the files."""

    def find(*paths, **fields):
        samples = listed(open_form(*paths, **fields))
        assert not any(sample.failure for sample in samples.values())
        return [str(Path(sample.uri).relative_to(tmp_path)) for sample in samples.values()]

    return find


def both(tmp_path: Path, *folders: str) -> tuple[str, ...]:
    for folder in folders:
        save_pictures(tmp_path / folder)
    return tuple(str(tmp_path / folder) for folder in folders)


def all_in(*folders: str) -> list[str]:
    return [f"{folder}/{name}" for folder in folders for name in NAMES]


@pytest.mark.parametrize("folders", [("train2017", "val2017"), ("imgs/train/images", "imgs/valid/images")])
@pytest.mark.parametrize("turned", [False, True])
def test_folders_and_files_that_are_named_like_splits_belong_together(write, places, tmp_path, folders, turned):
    roots = both(tmp_path, *folders)
    found = places(write("train"), write("val"), image_root=roots[::-1] if turned else roots)
    assert found == all_in(*folders)


def test_a_single_file_has_the_folder_of_its_split(write, places, tmp_path):
    roots = both(tmp_path, "train", "val")
    assert places(write("val"), image_root=roots) == all_in("val")


@pytest.mark.parametrize("around", ["test_run", "train", "val2017"])
def test_a_folder_around_everything_is_no_split(write, open_form, tmp_path, around):
    roots = both(tmp_path, f"{around}/train", f"{around}/val")
    with refuses("ambiguous_image", "image_root", says=["/train/a.jpg'", "/val/a.jpg'"]):
        list(open_form(write("x", around), image_root=roots).samples())
    words = (f"train={roots[0]}", f"val={roots[1]}")
    with refuses("unmatched_roots", "image_root", "input", says=["train, validation"]):
        list(open_form(write("x", around), image_root=words).samples())


def test_as_many_folders_as_files_are_each_of_the_file_at_its_place(write, places, tmp_path):
    roots = both(tmp_path, "one", "two")
    assert places(write("x"), write("y"), image_root=roots) == all_in("one", "two")


@pytest.mark.parametrize("splits", [True, False])
def test_the_request_says_the_split_of_a_folder(write, places, open_form, tmp_path, splits):
    roots = both(tmp_path, "one", "two")
    words = (f"train={roots[1]}", f"val={roots[0]}")
    paths = (f"train={write('x')}", f"val={write('y')}") if splits else (write("train"), write("val"))
    assert places(*paths, image_root=words) == all_in("two", "one")
    with refuses("unmatched_roots", "image_root", "input", says=["train", "validation"]):
        list(open_form(*paths, image_root=words[:1]).samples())


@pytest.mark.parametrize("root", [".", "train"])
def test_files_in_their_own_folders_look_there_first(write, places, tmp_path, root):
    both(tmp_path, "train", "valid")
    paths = write("x", "train"), write("x", "valid")
    found = places(f"train={paths[0]}", f"validation={paths[1]}", image_root=(str(tmp_path / root),))
    assert found == all_in("train", "valid")


def test_another_folder_than_those_of_the_files_is_meant(write, places, tmp_path):
    roots = both(tmp_path, "train", "valid", "resized")
    paths = write("x", "train"), write("x", "valid")
    found = places(f"train={paths[0]}", f"validation={paths[1]}", image_root=roots[2:])
    assert found == all_in("resized", "resized")


@pytest.mark.parametrize(("words", "folders"), [(["x"], ["one", "two"]), (["x", "y"], ["one", "two", "three"])])
def test_a_name_in_several_folders_is_refused(write, open_form, tmp_path, words, folders):
    roots = both(tmp_path, *folders)
    with refuses("ambiguous_image", "image_root", says=["/one/a.jpg'", "/two/a.jpg'", "image_root=train=FOLDER"]):
        list(open_form(*map(write, words), image_root=roots).samples())


def test_a_later_name_in_several_folders_is_a_failure(open_form, listed, tmp_path):
    roots = both(tmp_path, "one", "two")
    for name in NAMES:
        (tmp_path / "two" / name).unlink()
    source = open_form(write_csv(tmp_path / "x.csv"), image_root=roots)
    (tmp_path / "two" / NAMES[-1]).write_bytes(b"other")
    samples = listed(source)
    assert [key for key, sample in samples.items() if sample.failure] == [NAMES[-1]]
    assert samples[NAMES[-1]].failure[0] == "invalid_row"


@pytest.mark.parametrize("words", [["x"], ["train", "val"]])
def test_images_may_be_spread_over_folders_of_no_file(write, places, tmp_path, words):
    roots = both(tmp_path, "one", "two")
    for folder, names in (("one", NAMES[::2]), ("two", NAMES[1::2])):
        for name in names:
            (tmp_path / folder / name).unlink()
    found = places(*map(write, words), image_root=roots)
    assert found == [f"{'two' if name in NAMES[::2] else 'one'}/{name}" for name in NAMES] * len(words)


def test_masks_of_a_table_have_the_folders_of_its_split(tmp_path, opened):
    roots = both(tmp_path, "train/masks", "val/masks", "train/images", "val/images")
    for word in ("train", "val"):
        rows = "".join(f"{name},{name}\n" for name in NAMES)
        (tmp_path / f"{word}.csv").write_text(f"image,mask\n{rows}")
    source = opened(tmp_path / "train.csv", tmp_path / "val.csv", image_root=roots[2:], mask_root=roots[:2],
                    needs_mask=True, needs_label=False, mask_column="mask")  # fmt: skip
    for sample in source.samples():
        split = {"train": "train", "validation": "val"}[sample.split]
        assert {Path(one.uri).relative_to(tmp_path).parts[0] for one in sample.images.values()} == {split}
