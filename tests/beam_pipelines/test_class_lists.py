"""Which class a label means, in sources of all kinds, with names of the request, of files, arrays and columns."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_tfrecords import Sample, build
from beam_tfrecords.errors import RequestError
from tests.annotated_inputs import CATEGORIES, PICTURES, save_pictures, write_coco, write_voc, write_yolo
from tests.beam_pipelines.listed_classes import ListedClasses, list_classes_of
from tests.framing import write_examples
from tests.pixel_files import save_cifar, save_mnist
from tests.refusals import refuses

NAMES = ("cat", "dog", "emu")


def pixels_of(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (count, 8, 8, 3), np.uint8)


def png_of(pixels: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def files_of(folder: Path, labels: Sequence[Any]) -> list[str]:
    names = [f"{number}.png" for number in range(len(labels))]
    for name, pixels in zip(names, pixels_of(len(labels)), strict=True):
        (folder / name).write_bytes(png_of(pixels))
    return names


def write_csv(folder: Path, labels: Sequence[Any]) -> Any:
    rows = [f"{name},{label}" for name, label in zip(files_of(folder, labels), labels, strict=True)]
    (folder / "table.csv").write_text("\n".join(["image,label", *rows]))
    return folder / "table.csv"


def write_jsonl(folder: Path, labels: Sequence[Any]) -> Any:
    rows = [{"image": name, "label": label} for name, label in zip(files_of(folder, labels), labels, strict=True)]
    (folder / "table.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder / "table.jsonl"


def write_list(folder: Path, labels: Sequence[Any]) -> Any:
    rows = [f"{name} {label}\n" for name, label in zip(files_of(folder, labels), labels, strict=True)]
    (folder / "list.txt").write_text("".join(rows))
    return folder / "list.txt"


def write_parquet(folder: Path, labels: Sequence[Any]) -> Any:
    pq.write_table(pa.table({"image": files_of(folder, labels), "label": list(labels)}), folder / "table.parquet")
    return folder / "table.parquet"


def write_hf_parquet(folder: Path, labels: Sequence[Any]) -> Any:
    images = [{"bytes": png_of(pixels), "path": None} for pixels in pixels_of(len(labels))]
    pq.write_table(pa.table({"image": images, "label": list(labels)}), folder / "train.parquet")
    return folder / "train.parquet"


def write_npz(folder: Path, labels: Sequence[Any]) -> Any:
    np.savez(folder / "data.npz", images=pixels_of(len(labels)), labels=np.array(labels))
    return folder / "data.npz"


def write_idx(folder: Path, labels: Sequence[Any]) -> Any:
    images = {split: pixels_of(len(labels))[..., 0] for split in ("train", "test")}
    save_mnist(folder, images, dict.fromkeys(images, np.array(labels, np.uint8)))
    return folder / "t10k-images-idx3-ubyte"


def write_records(folder: Path, labels: Sequence[Any]) -> Any:
    rows = zip(pixels_of(len(labels)), labels, strict=True)
    examples = ({"image/encoded": png_of(pixels), "image/class/label": label} for pixels, label in rows)
    write_examples(folder / "train.tfrecord", examples)
    return folder / "train.tfrecord"


def write_webdataset(folder: Path, labels: Sequence[Any]) -> Any:
    with tarfile.open(folder / "train.tar", "w") as archive:
        for number, (pixels, label) in enumerate(zip(pixels_of(len(labels)), labels, strict=True)):
            for suffix, data in (("png", png_of(pixels)), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{number}.{suffix}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return folder / "train.tar"


def make_function(folder: Path, labels: Sequence[Any]) -> Any:
    def rows() -> Iterator[Sample]:
        for number, (pixels, label) in enumerate(zip(pixels_of(len(labels)), labels, strict=True)):
            yield Sample(f"{number}", image=pixels, label=label)

    return rows


WRITERS: dict[str, Callable[[Path, Sequence[Any]], Any]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
    "list": write_list,
    "parquet": write_parquet,
    "hf_parquet": write_hf_parquet,
    "npz": write_npz,
    "idx": write_idx,
    "records": write_records,
    "webdataset": write_webdataset,
    "function": make_function,
}
EACH = pytest.mark.parametrize("form", WRITERS)


@pytest.fixture
def write(tmp_path) -> Callable[[str, Sequence[Any]], dict[str, Any]]:
    """Writes an input with these labels in a form; returns the settings that name it."""

    def write(form: str, labels: Sequence[Any]) -> dict[str, Any]:
        (tmp_path / form).mkdir()
        written = WRITERS[form](tmp_path / form, labels)
        return {
            "input": written if callable(written) else str(written),
            **({"source": "csv"} if form == "list" else {}),
        }

    return write


def labels_of(found: ListedClasses) -> list[str | None]:
    """The names in the order of the samples."""
    ordered = sorted(found.of_samples.items(), key=lambda item: (len(item[0]), item[0]))
    return [name for _, names in ordered for name in names]


@EACH
@pytest.mark.parametrize(("labels", "first"), [([0, 1, 2, 1], 0), ([1, 2, 3, 1], 1)])
def test_numbers_count_from_0_or_from_1(write, form, labels, first):
    found = list_classes_of(**write(form, labels), class_names="cat,dog,emu")
    assert found.names == NAMES
    assert labels_of(found) == [NAMES[label - first] for label in labels]
    assert any("numbers from 1 to 3" in note for note in found.notes) == bool(first)


@EACH
def test_numbers_that_may_count_from_0_or_from_1_are_asked_about(write, form):
    given = write(form, [1, 2, 1, 1])
    with refuses("first_class_number", "class_names") as refused:
        list_classes_of(**given, class_names="cat,dog,emu")
    found = [labels_of(list_classes_of(**given, **one.settings)) for one in refused.value.suggestions]
    assert found == [["cat", "dog", "cat", "cat"], ["dog", "emu", "dog", "dog"]]


@pytest.mark.nightly
@EACH
def test_a_number_in_the_last_row_decides(write, form):
    labels = [*[1, 2] * 600, 0]
    found = list_classes_of(**write(form, labels), class_names="cat,dog,emu")
    assert labels_of(found) == [NAMES[label] for label in labels]


def write_cifar_with(folder: Path, labels: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
    pixels = np.random.default_rng(3).integers(0, 256, (len(labels), 3, 32, 32), np.uint8)
    save_cifar(folder / "data_batch_1.bin", pixels, np.array(labels))
    (folder / "batches.meta.txt").write_text("\n".join(names))
    return {"input": str(folder), "source": "cifar"}


def write_yolo_with(folder: Path, labels: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
    for number, label in enumerate(labels):
        for name, content in (("images", png_of(pixels_of(1)[0])), ("labels", f"{label} 0.5 0.5 0.2 0.2".encode())):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / f"{number}.{'png' if name == 'images' else 'txt'}").write_bytes(content)
    (folder / "classes.txt").write_text("\n".join(names))
    return {"input": str(folder), "source": "yolo", "layout": "detection"}


@pytest.mark.parametrize("form", [*WRITERS, "cifar", "yolo"])
@pytest.mark.parametrize("labels", [(1, 2, 3, 1), (3, 2, 2, 3), (0, 2, 1, 1), (2, 1, 1, 2)])
def test_numbers_beside_as_many_names_are_never_one_class_too_far(form, labels, write, tmp_path):
    given: dict[str, Any]
    if form in WRITERS:
        given = write(form, labels) | {"class_names": ",".join(NAMES)}
    else:
        (tmp_path / form).mkdir()
        given = {"cifar": write_cifar_with, "yolo": write_yolo_with}[form](tmp_path / form, labels, NAMES)
    first = 1 if 3 in labels else 0
    with contextlib.suppress(RequestError):
        assert labels_of(list_classes_of(**given)) == [NAMES[label - first] for label in labels]


FILES = {
    "classes.txt": ("cat\ndog\nemu\n", 0),
    "labels.txt": ("0:cat\n1:dog\n2:emu\n", 0),
    "class_indices.json": (json.dumps({"cat": 1, "dog": 2, "emu": 3}), 1),
    "label_map.pbtxt": ("item { id: 1 name: 'cat' } item { id: 2 name: 'dog' } item { id: 3 name: 'emu' }", 1),
}


@EACH
@pytest.mark.parametrize("file", FILES)
def test_a_file_beside_the_input_names_the_numbers(write, tmp_path, form, file):
    text, first = FILES[file]
    given = write(form, [number + first for number in (0, 1, 2, 1)])
    (tmp_path / form / file).write_text(text)
    found = list_classes_of(**given)
    if form == "function":
        assert "cat" not in found.names
        return
    assert (found.names, labels_of(found)) == (NAMES, ["cat", "dog", "emu", "dog"])
    assert any(file in note for note in found.notes)


@pytest.mark.parametrize("is_named", [False, True])
@pytest.mark.parametrize(
    ("file", "text"), [("labels.txt", "1. cat\n2. dog\n3. emu"), ("label_map.pbtxt", FILES["label_map.pbtxt"][0])]
)
def test_labels_from_0_with_a_file_from_1_are_asked_about(write, tmp_path, file, text, is_named):
    given = write("csv", [0, 1, 2, 1])
    (tmp_path / "csv" / file).write_text(text)
    named = {"class_names": str(tmp_path / "csv" / file)} if is_named else {}
    with refuses("first_class_number", *named) as refused:
        list_classes_of(**given, **named)
    assert "`classes=" not in str(refused.value)
    found = [labels_of(list_classes_of(**given, **one.settings)) for one in refused.value.suggestions]
    assert found == [["cat", "dog", "emu", "dog"], ["background", "cat", "dog", "cat"]]


@pytest.mark.parametrize("names", ["cat,dog,emu", "1:cat,2:dog,3:emu"])
def test_numbers_may_have_leading_zeros(write, names):
    found = list_classes_of(**write("csv", ["001", "002", "003", "001"]), class_names=names)
    assert (found.names, labels_of(found)) == (NAMES, ["cat", "dog", "emu", "cat"])
    assert any("numbers from 1 to 3" in note for note in found.notes)


@EACH
def test_classes_chooses_numbers_by_their_names(write, form):
    found = list_classes_of(**write(form, [1, 2, 3, 1]), class_names="cat,dog,emu", classes="cat,emu")
    assert labels_of(found) == ["cat", "emu", "cat"]
    assert found.names == NAMES


@EACH
def test_a_limit_does_not_change_the_meaning_of_numbers(write, form):
    found = list_classes_of(**write(form, [1, 2, 3, 1]), class_names="cat,dog,emu", classes="dog", limit=1)
    assert labels_of(found) == ["dog"]


def test_a_file_that_labels_do_not_fit_is_named(write, tmp_path):
    given = write("csv", [0, 1, 2, 3])
    (tmp_path / "csv/classes.txt").write_text("cat\ndog\nemu\n")
    found = list_classes_of(**given)
    assert found.names == ("0", "1", "2", "3")
    assert any("classes.txt has 3 class names and is not used: it has no class 3" in note for note in found.notes)


def test_a_damaged_file_is_named(write, tmp_path):
    given = write("csv", ["cat", "dog"])
    (tmp_path / "csv/classes.json").write_text('["cat",')
    found = list_classes_of(**given)
    assert found.names == ("cat", "dog")
    assert any("classes.json is not read as class names" in note for note in found.notes)


def test_two_files_of_different_classes_are_asked_about(write, tmp_path):
    given = write("csv", [0, 1, 2])
    (tmp_path / "csv/classes.txt").write_text("cat\ndog\nemu\n")
    (tmp_path / "csv/class_indices.json").write_text(json.dumps({"emu": 0, "dog": 1, "cat": 2}))
    with refuses("class_names_differ", "input") as refused:
        list_classes_of(**given)
    names = [list_classes_of(**given, **one.settings).names for one in refused.value.suggestions]
    assert names == [NAMES, NAMES[::-1]]


@pytest.fixture
def folders(tmp_path) -> Path:
    """An image of each class, in folders."""
    for name in NAMES:
        (tmp_path / "photos" / name).mkdir(parents=True)
        files_of(tmp_path / "photos" / name, [name])
    return tmp_path / "photos"


@pytest.mark.parametrize("place", ["photos", "."])
def test_a_file_beside_class_folders_orders_the_classes(folders, tmp_path, place):
    (tmp_path / place / "classes.txt").write_text("emu\ncat\ndog\nfox\n")
    found = list_classes_of(input=str(folders))
    assert found.names == ("emu", "cat", "dog", "fox")
    assert all(names == [key.split("/")[0]] for key, names in found.of_samples.items())
    assert any("from classes.txt" in note for note in found.notes)


def test_ids_in_a_file_name_the_folders(tmp_path):
    ids = {"n02121808": "cat", "n02084071": "dog, domestic dog"}
    for folder in ids:
        (tmp_path / "photos" / folder).mkdir(parents=True)
        files_of(tmp_path / "photos" / folder, [0])
    (tmp_path / "words.txt").write_text("".join(f"{id_} {name}\n" for id_, name in ids.items()))
    found = list_classes_of(input=str(tmp_path / "photos"), class_names=str(tmp_path / "words.txt"))
    assert found.names == tuple(ids.values())
    assert found.of_samples == {f"{id_}/0.png": [name] for id_, name in ids.items()}


@pytest.mark.parametrize("names", [np.array(NAMES), np.array(NAMES, object)], ids=["texts", "objects"])
def test_an_array_of_names_is_named_and_not_used(tmp_path, names):
    np.savez(tmp_path / "a.npz", images=pixels_of(4), labels=np.array([1, 2, 0, 1]), label_names=names)
    found = list_classes_of(input=str(tmp_path / "a.npz"))
    assert found.names == ("0", "1", "2")
    assert any("the array 'label_names' has 3 texts and is not used; `class_names`" in note for note in found.notes)


@pytest.mark.parametrize("name", ["classes.txt", "names.json", "label_map.pbtxt"])
def test_a_file_of_names_inside_an_archive_is_named(tmp_path, name):
    with tarfile.open(tmp_path / "data.tar", "w") as archive:
        for path in ("data/cat/1.png", "data/dog/2.png", f"data/{name}"):
            archive.addfile(tarfile.TarInfo(path))
    assert name in "\n".join(list_classes_of(input=str(tmp_path / "data.tar")).notes)


def test_a_file_is_named_if_the_layout_has_no_labels(write, tmp_path):
    given = write("csv", [0, 1, 2])
    (tmp_path / "csv/label2id.json").write_text(json.dumps({"cat": 0, "dog": 1, "emu": 2}))
    notes = list_classes_of(**given, layout="image").notes
    assert any("label2id.json has 3 class names and is not used: the layout has no labels" in note for note in notes)


@pytest.mark.parametrize("names", ["a,b", "a,b,c,d"])
def test_zeros_and_ones_need_a_name_each(tmp_path, names):
    np.savez(tmp_path / "a.npz", images=pixels_of(4), labels=np.eye(3, dtype=int)[[0, 2, 1, 0]])
    with refuses("class_count_differs", "class_names"):
        list_classes_of(input=str(tmp_path / "a.npz"), class_names=names)
    found = list_classes_of(input=str(tmp_path / "a.npz"), class_names="a,b,c")
    assert labels_of(found) == ["a", "c", "b", "a"]


def write_texts(folder: Path, rows: Sequence[tuple[Any, str]], column: str) -> str:
    files = files_of(folder, rows)
    lines = [f"{name},{label},{text}" for name, (label, text) in zip(files, rows, strict=True)]
    (folder / "table.csv").write_text("\n".join([f"image,label,{column}", *lines]))
    return str(folder / "table.csv")


@pytest.mark.parametrize("form", ["columns", "lists", "array"])
def test_a_file_beside_zeros_and_ones_has_a_name_for_each(tmp_path, form):
    (tmp_path / "classes.txt").write_text("\n".join(NAMES))
    rows = np.eye(4, dtype=np.int64)[[0, 1, 2, 3, 1, 2]]
    settings, path = {}, tmp_path / "table.jsonl"
    if form == "array":
        path = tmp_path / "data.npz"
        np.savez(path, images=pixels_of(len(rows)), labels=rows)
    else:
        names = files_of(tmp_path, rows)
        cells = [dict(zip("abcd", row, strict=True)) if form == "columns" else {"label": row} for row in rows.tolist()]
        path.write_text("\n".join(json.dumps({"image": one} | row) for one, row in zip(names, cells, strict=True)))
        settings = {"label_columns": "a,b,c,d"} if form == "columns" else {}
    with refuses("class_count_differs", "class_names", says=["3 class names", "4 zeros and ones"]) as refused:
        list_classes_of(input=str(path), **settings)
    (named,) = refused.value.suggestions
    assert len(list_classes_of(input=str(path), **settings, **named.settings).names) == 4


@pytest.mark.parametrize("column", ["label_name", "class_name", "label_text", "Category Name"])
def test_a_column_of_texts_names_the_numbers(tmp_path, column):
    rows = [(1, "dog"), (0, "cat"), (2, "emu"), (1, "dog")]
    found = list_classes_of(input=write_texts(tmp_path, rows, column))
    assert (found.names, labels_of(found)) == (NAMES, [text for _, text in rows])
    assert any(f"class names from the column {column!r}" in note for note in found.notes)
    chosen = list_classes_of(input=str(tmp_path / "table.csv"), classes="dog")
    assert labels_of(chosen) == ["dog", "dog"]


def test_numbers_keep_their_indices_where_texts_name_them(tmp_path):
    found = list_classes_of(input=write_texts(tmp_path, [(1, "dog"), (3, "cat")], "label_name"))
    assert found.names == ("category_0", "dog", "category_2", "cat")


def test_texts_that_differ_in_a_late_row_are_not_class_names(tmp_path):
    rows = [(number % 2, NAMES[number % 2]) for number in range(1100)]
    found = list_classes_of(input=write_texts(tmp_path, [*rows, (1, "emu")], "label_name"))
    assert found.names == ("0", "1")
    assert any("'label_name' is not used" in note for note in found.notes)


def test_paths_with_and_without_a_dot_are_one_sample(tmp_path):
    files_of(tmp_path, [0, 1])
    (tmp_path / "t.csv").write_text("image,label\n0.png,cat\n./0.png,cat\n.//1.png,dog\n")
    assert set(list_classes_of(input=str(tmp_path / "t.csv")).of_samples) == {"0.png", "1.png"}


OBJECTS = {
    "coco": lambda folder: {"input": str(write_coco(folder / "a.json")), "image_root": str(folder)},
    "yolo": lambda folder: {"input": str(write_yolo(folder, {"train": PICTURES}))},
    "voc": lambda folder: {"input": str(write_voc(folder, {"train": PICTURES})), "source": "voc"},
}


@pytest.mark.parametrize("form", OBJECTS)
def test_classes_chooses_objects(tmp_path, form):
    save_pictures(tmp_path)
    found = list_classes_of(**OBJECTS[form](tmp_path), layout="detection", classes="cat,dog")
    objects = {key.rpartition("/")[2]: names for key, names in found.of_samples.items()}
    assert objects == {"a.jpg": ["cat"], "c.jpg": [], "d.jpg": ["dog", "dog", "cat"]}
    assert found.skipped["other class"] == 1
    assert any("leaves out 2 objects of other classes" in note for note in found.notes)
    assert set(found.names) <= set(CATEGORIES)


def test_classes_without_labels_is_refused(tmp_path):
    save_pictures(tmp_path)
    with refuses("setting_not_applicable", "classes"):
        list_classes_of(**OBJECTS["coco"](tmp_path), layout="image", classes="cat")


def test_objects_of_a_chosen_class_keep_their_boxes(tmp_path):
    save_pictures(tmp_path)
    flags = {**OBJECTS["coco"](tmp_path), "image_size": None, "layout": "detection", "classes": "person"}
    dataset = build(output=str(tmp_path / "out"), quiet=True, **flags)
    boxes = {record["image/filename"]: record["image/object/bbox/xmin"].tolist() for record in dataset["train"]}
    assert {key: len(sides) for key, sides in boxes.items()} == {"a.jpg": 1, "b.jpg": 1, "c.jpg": 0}
    assert boxes["a.jpg"] == pytest.approx([15.5 / 60])


@pytest.mark.parametrize("layout", ["tfds", "detection"])
def test_edited_class_names_of_a_dataset_are_refused(folders, tmp_path, layout):
    given = {"input": str(folders)}
    if layout == "detection":
        save_pictures(tmp_path)
        given = OBJECTS["coco"](tmp_path)
    build(output=str(tmp_path / "out"), quiet=True, image_size=8, layout=layout, **given)
    file = next(path for path in (tmp_path / "out").iterdir() if path.name.endswith(("labels.txt", ".pbtxt")))
    file.write_text(file.read_text().replace("dog", "hound"))
    with refuses("edited_class_names", "input", "class_names", says=[file.name, "hound"]):
        list_classes_of(input=str(tmp_path / "out"), source="tfrecord")
