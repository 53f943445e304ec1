"""Split words in paths, keys and names of inputs: one rule for all sources."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.sources.detect.path_splits import PathWords, WordsOf, judge_splits, split_of_component
from tests.archive_files import tar_of
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.dataset_records import read_dataset
from tests.beam_pipelines.listed_records import read
from tests.each import each
from tests.framing import write_examples

# Path -> class of its image.
Paths = Mapping[str, str]


def _image(number: int) -> bytes:
    content = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), number * 5 % 256, np.uint8)).save(content, "PNG")
    return content.getvalue()


def _images(paths: Paths) -> dict[str, bytes]:
    return {path: _image(number) for number, path in enumerate(paths)}


def _save(folder: Path, paths: Paths) -> None:
    for path, data in _images(paths).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _csv(folder: Path, paths: Paths) -> list[str]:
    _save(folder, paths)
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "label"), *paths.items()])
    return [f"--input={folder}/table.csv"]


def _ids(folder: Path, paths: Paths) -> list[str]:
    _save(folder, paths)
    with (folder / "table.csv").open("w", newline="") as file:
        rows = ((number, *row) for number, row in enumerate(paths.items()))
        csv.writer(file).writerows([("id", "image", "label"), *rows])
    return [f"--input={folder}/table.csv", "--key_column=id"]


def _list(folder: Path, paths: Paths) -> list[str]:
    _save(folder, paths)
    (folder / "list.txt").write_text("".join(f"{path} {label}\n" for path, label in paths.items()))
    return [f"--input={folder}/list.txt", "--source=csv"]


def _jsonl(folder: Path, paths: Paths) -> list[str]:
    _save(folder, paths)
    rows = [json.dumps({"image": path, "label": label}) for path, label in paths.items()]
    (folder / "table.jsonl").write_text("\n".join(rows))
    return [f"--input={folder}/table.jsonl"]


def _parquet(folder: Path, paths: Paths) -> list[str]:
    _save(folder, paths)
    pq.write_table(pa.table({"image": list(paths), "label": list(paths.values())}), folder / "table.parquet")
    return [f"--input={folder}/table.parquet"]


def _hf_folder(folder: Path, paths: Paths) -> list[str]:
    _save(folder, paths)
    with (folder / "metadata.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file_name", "label"), *paths.items()])
    return [f"--input={folder}", "--source=hf_folder"]


def _coco(folder: Path, paths: Paths) -> list[str]:
    _save(folder, paths)
    names = sorted(set(paths.values()))
    content = {
        "images": [{"id": one, "file_name": path, "height": 8, "width": 8} for one, path in enumerate(paths)],
        "annotations": [
            {"id": one, "image_id": one, "category_id": names.index(label), "bbox": [1, 1, 4, 4]}
            for one, label in enumerate(paths.values())
        ],
        "categories": [{"id": number, "name": name} for number, name in enumerate(names)],
    }
    (folder / "objects.json").write_text(json.dumps(content))
    return [f"--input={folder}/objects.json", f"--image_root={folder}"]


def _webdataset(folder: Path, paths: Paths) -> list[str]:
    members = {}
    for path, data in _images(paths).items():
        members[path] = data
        members[path.replace(".png", ".cls")] = str(sorted(set(paths.values())).index(paths[path])).encode()
    (folder / "set.tar").write_bytes(tar_of(members))
    return [f"--input={folder}/set.tar"]


def _tfrecord(folder: Path, paths: Paths) -> list[str]:
    images = _images(paths).items()
    examples = ({"image": data, "name": path.encode(), "label": paths[path].encode()} for path, data in images)
    write_examples(folder / "set.tfrecord", examples)
    return [f"--input={folder}/set.tfrecord", "--key_column=name"]


def _hf_parquet(folder: Path, paths: Paths) -> list[str]:
    images = [{"bytes": data, "path": path} for path, data in _images(paths).items()]
    table = pa.table({"image": images, "label": list(paths.values()), "name": list(paths)})
    pq.write_table(table, folder / "set.parquet")
    return [f"--input={folder}/set.parquet", "--key_column=name"]


def _folder(folder: Path, paths: Paths) -> list[str]:
    _save(folder / "set", paths)
    return [f"--input={folder}/set", "--label_pattern=(?P<label>cat|dog)"]


def _zip(folder: Path, paths: Paths) -> list[str]:
    with zipfile.ZipFile(folder / "set.zip", "w") as archive:
        for name, data in _images(paths).items():
            archive.writestr(name, data)
    return [f"--input={folder}/set.zip", "--label_pattern=(?P<label>cat|dog)"]


FORMS: Mapping[str, Callable[[Path, Paths], list[str]]] = {
    "csv": _csv,
    "ids": _ids,
    "list": _list,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "hf_folder": _hf_folder,
    "coco": _coco,
    "webdataset": _webdataset,
    "tfrecord": _tfrecord,
    "hf_parquet": _hf_parquet,
    "folder": _folder,
    "zip": _zip,
}
# These have their own questions and answers about folders.
_BY_FOLDERS = ("folder", "zip")


def _paths(*folders: str) -> Paths:
    return {f"{folder}/{label}_{n}.png": label for folder in folders for n in range(2) for label in ("cat", "dog")}


def _splits_of(out: Path) -> dict[str, int]:
    return {split: len(read_dataset(out, split)) for split in manifest_of(out)["splits"]}


def _run(convert, out, flags):
    return convert(f"--output={out}", "--name=x", *flags)


def _list(folder: Path, flags: Sequence[str]) -> tuple[dict[str, int], str]:
    """Lists the samples of a request without a build; returns split -> their number, and the notes."""
    records, notes = read([*flags, f"--output={folder}/out", "--name=x"], folder)
    return {split: labels.total() for split, labels in records.items()}, "\n".join(notes)


@each(
    "folders, wanted",
    [
        (("train", "test"), {"train": 4, "test": 4}),
        (("images/train2017", "images/val2017"), {"train": 4, "validation": 4}),
        (("a/Train", "a/Valid", "b/Test"), {"train": 4, "validation": 4, "test": 4}),
    ],
    ids=["words", "below", "deep"],
)
@each("form", [form for form in FORMS if form not in _BY_FOLDERS])
def test_paths_with_split_words_say_the_splits(tmp_path, form, folders, wanted):
    (tmp_path / "in").mkdir()
    flags = FORMS[form](tmp_path / "in", _paths(*folders))
    found, notes = _list(tmp_path / "listed", flags)
    assert found == wanted
    assert "splits from the folders in the paths: " in notes
    assert _list(tmp_path / "one", [*flags, "--splits=train=1"])[0] == {"train": sum(wanted.values())}


@each("form", [form for form in FORMS if form not in _BY_FOLDERS])
def test_a_build_has_the_splits_of_the_paths_or_of_the_request(tmp_path, convert, form):
    (tmp_path / "in").mkdir()
    flags = FORMS[form](tmp_path / "in", _paths("train", "test"))
    ran = _run(convert, tmp_path / "out", flags)
    assert (ran.code, _splits_of(tmp_path / "out")) == (0, {"train": 4, "test": 4}), ran.err
    assert "splits from the folders in the paths: " in ran.err + ran.out
    assert _run(convert, tmp_path / "one", [*flags, "--splits=train=1"]).code == 0
    assert _splits_of(tmp_path / "one") == {"train": 8}


@each("form", FORMS)
def test_all_paths_in_the_folder_of_one_split_are_of_that_split(tmp_path, form):
    (tmp_path / "in").mkdir()
    flags = FORMS[form](tmp_path / "in", _paths("test"))
    if form == "ids":  # Places of images are absolute, and folders around the input say nothing.
        return
    assert _list(tmp_path / "listed", flags)[0] == {"test": 4}


def test_a_folder_beside_those_of_splits_is_a_question(tmp_path, convert):
    (tmp_path / "in").mkdir()
    flags = FORMS["csv"](tmp_path / "in", _paths("train", "test", "extra"))
    _run(convert, tmp_path / "out", flags).refused("unclear_splits", "input", says=["extra"])


@each("folders", [("train", "test", "extra"), ("val", "more")], ids=["three", "two"])
@each("form", [form for form in FORMS if form not in _BY_FOLDERS])
def test_paths_of_which_some_have_split_words_are_a_question(tmp_path, convert, form, folders):
    (tmp_path / "in").mkdir()
    flags = FORMS[form](tmp_path / "in", _paths(*folders))
    refusal = _run(convert, tmp_path / "out", flags).refused("unclear_splits", "input", says=[folders[-1]])
    _check_suggestions(tmp_path, flags, refusal)


def _check_suggestions(root, flags, refusal):
    """Asserts that each suggestion works, and that they read other samples or splits."""
    found = []
    for number, suggestion in enumerate(refusal.suggestions):
        kept = [flag for flag in flags if flag[2:].partition("=")[0] not in suggestion.settings]
        for name, value in suggestion.settings.items():
            kept += [f"--{name}={one}" for one in (value if isinstance(value, list) else [value])]
        found.append(_list(root / f"suggested-{number}", kept)[0])
    assert found
    assert all(found.count(one) == 1 for one in found)


@each("folders", [("car", "train", "bus"), ("cat", "dog"), ("train",), ("test_crash", "road")])
@each("form", [form for form in FORMS if form not in _BY_FOLDERS])
def test_other_paths_are_not_taken_for_splits(tmp_path, form, folders):
    (tmp_path / "in").mkdir()
    flags = FORMS[form](tmp_path / "in", _paths(*folders))
    assert _list(tmp_path / "listed", flags)[0] == {"train": 4 * len(folders)}


def _renamed(form: str, root: Path, name: str) -> list[str]:
    """Writes an input of a form, whose last component says only `name`; returns the flags."""
    root.mkdir(parents=True)
    flags = FORMS[form](root, _paths("some"))
    path = Path(flags[0].partition("=")[2])
    if form == "hf_folder":
        shutil.copytree(path, root / name)
        return [f"--input={root}/{name}", *flags[1:]]
    new = path.with_name(f"{name}{path.suffix}")
    path.rename(new)
    return [f"--input={new}", *flags[1:]]


@each("name", ["test", "flowers_val"])
@each("form", FORMS)
def test_the_name_of_a_single_input_may_say_its_split(tmp_path, form, name):
    flags = _renamed(form, tmp_path / "in", name)
    split = {"test": "test", "flowers_val": "validation"}[name]
    found, notes = _list(tmp_path / "listed", flags)
    assert found == {split: 4}
    assert f"the split {split} comes from the name of the input; " in notes
    for number, said in enumerate(["--splits=train=1", flags[0].replace("--input=", "--input=train=")]):
        assert _list(tmp_path / f"said-{number}", [*flags[number:], said])[0] == {"train": 4}


# Records keep the file names that they hold, so the three inputs share their keys.
@each("form", [form for form in FORMS if form != "tfrecord"])
def test_inputs_of_which_some_have_the_names_of_splits_are_a_question(tmp_path, convert, form):
    found = [_renamed(form, tmp_path / "in" / name, name) for name in ("train", "test", "extra")]
    others = [] if form == "coco" else found[0][1:]
    flags = [*(one[0] for one in found), *others]
    refusal = _run(convert, tmp_path / "out", flags).refused("unclear_splits", "input", says=["extra"])
    _check_suggestions(tmp_path, flags, refusal)


def test_the_folders_of_several_tables_of_an_hf_folder_are_splits(tmp_path, convert):
    for split in ("train", "val"):
        _hf_folder(tmp_path / "in" / split, {"1.png": "cat", "more/2.png": "dog"})
    assert _run(convert, tmp_path / "out", [f"--input={tmp_path}/in", "--source=hf_folder"]).code == 0
    assert _splits_of(tmp_path / "out") == {"train": 2, "validation": 2}


def _with_column(folder: Path, rows: Sequence[tuple[str, str]]) -> str:
    _save(folder, dict(rows))
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ("image", "label", "split"),
                *((path, "cat" if n % 2 else "dog", split) for n, (path, split) in enumerate(rows)),
            ]
        )
    return f"--input={folder}/table.csv"


def test_a_split_column_that_contradicts_the_paths_is_refused(tmp_path, convert):
    flag = _with_column(tmp_path / "in", [("train/1.png", "test"), ("test/2.png", "train"), ("test/3.png", "test")])
    refusal = _run(convert, tmp_path / "out", [flag]).refused("contradicting_splits", "input", "split_column")
    (suggestion,) = refusal.suggestions
    assert suggestion.settings == {"split_column": "split"}
    assert _run(convert, tmp_path / "out", [flag, "--split_column=split"]).code == 0
    assert _splits_of(tmp_path / "out") == {"test": 2, "train": 1}


@pytest.mark.parametrize(
    "rows",
    [
        [("train/1.png", "train"), ("train/2.png", "val"), ("test/3.png", "test")],
        [("all/1.png", "train"), ("all/2.png", "val"), ("all/3.png", "test")],
        [("train/1.png", "train"), ("train/2.png", "val"), ("train/3.png", "test")],
        [("train/1.png", "train"), ("val/2.png", ""), ("test/3.png", "")],
    ],
)
def test_a_split_column_may_divide_a_folder_or_leave_cells_empty(tmp_path, convert, rows):
    flag = _with_column(tmp_path / "in", rows)
    ran = _run(convert, tmp_path / "out", [flag])
    assert (ran.code, _splits_of(tmp_path / "out")) == (0, {"train": 1, "validation": 1, "test": 1}), ran.err


def test_without_a_split_column_by_request_paths_say_nothing(tmp_path, convert):
    flag = _with_column(tmp_path / "in", [("train/1.png", "train"), ("test/2.png", "train")])
    assert _run(convert, tmp_path / "out", [flag, "--split_column="]).code == 0
    assert _splits_of(tmp_path / "out") == {"train": 2}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("test", ("test", True)),
        ("Val2017", ("validation", True)),
        ("test_images", ("test", True)),
        ("instances_val2017.json", ("validation", True)),
        ("mnist-test.npz", ("test", True)),
        ("t10k-images-idx3-ubyte", ("test", True)),
        ("train.tar.gz", ("train", True)),
        ("hold_out", ("test", True)),
        ("test_cats", ("test", False)),
        ("train_test", (None, False)),
        ("contest", (None, False)),
        ("latest", (None, False)),
        ("validity", (None, False)),
    ],
)
def test_a_name_says_a_split(name, wanted):
    assert split_of_component(name) == wanted


folders = st.lists(st.sampled_from(["train", "val", "test", "x", "y"]), max_size=3)
keys = st.lists(folders.map(lambda parts: "/".join([*parts, "1.png"])), min_size=1, max_size=12)


def _refs(found):
    return RefColumns.of_rows(found, [None] * len(found), {})


@given(keys, st.randoms())
def test_counts_do_not_depend_on_the_order(found, chance):
    def count(names):
        words = PathWords()
        for start in range(0, len(names), 3):
            words.add(_refs(names[start : start + 3]), by_image=False)
        return words

    mixed = list(found)
    chance.shuffle(mixed)
    assert count(found) == count(mixed)


@given(keys)
def test_a_decision_places_every_sample_or_none(found):
    words = PathWords()
    words.add(_refs(found), by_image=False)
    placed = _refs(found).replace(split="train")
    # A question, or folders of one path that contradict each other.
    with contextlib.suppress(RequestError):
        placement = judge_splits(words, WordsOf("input"))
        placed = placement.apply(placed) if placement else placed
    for key, split in zip(placed.keys, placed.each("split"), strict=True):
        assert split in {"train", *(split_of_component(part)[0] for part in key.split("/")[:-1])}
