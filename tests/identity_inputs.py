"""An input of every source in two states: files of the same names and sizes, with other pictures and other labels."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.archive_files import tar_of
from tests.framing import write_examples
from tests.pixel_files import save_cifar, save_idx

COUNT = 6
_CLASSES = ("cat", "dog")
NAMES = [f"{number:02d}.bmp" for number in range(COUNT)]


def _pixels(number: int, state: int) -> np.ndarray:
    """[32, 32, 3] uint8; pictures 0 and 1 are the same in both states, so that duplicates can be refused."""
    return np.full((32, 32, 3), 20 + 30 * max(1, number) + 15 * state, np.uint8)


def _image(number: int, state: int) -> bytes:
    content = io.BytesIO()
    Image.fromarray(_pixels(number, state)).save(content, "BMP")
    return content.getvalue()


def _label(number: int, state: int) -> int:
    return (number + state) % 2


def _classes(state: int) -> Sequence[str]:
    return _CLASSES if state == 0 else _CLASSES[::-1]


def _save_images(folder: Path, state: int, names: Sequence[str] = NAMES) -> None:
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(_image(number, state))


def _rows(state: int) -> list[dict[str, str]]:
    return [{"image": name, "label": _CLASSES[_label(number, state)]} for number, name in enumerate(NAMES)]


def _write_folder(folder: Path, state: int) -> None:
    _save_images(folder / "in", state, [f"{_CLASSES[number % 2]}/{name}" for number, name in enumerate(NAMES)])


def _write_pattern(folder: Path, state: int) -> None:
    _save_images(folder / "in", state, [f"{_CLASSES[number % 2]}_{name}" for number, name in enumerate(NAMES)])


def _write_pairs(folder: Path, state: int) -> None:
    names = [f"{_CLASSES[number % 2]}_{name}" for number, name in enumerate(NAMES)]
    _save_images(folder / "left", state, names)
    _save_images(folder / "right", 0, names)


def _write_csv(folder: Path, state: int, name: str = "table.csv") -> None:
    _save_images(folder, state)
    with (folder / name).open("w", newline="") as file:
        rows = csv.DictWriter(file, ["image", "label"])
        rows.writeheader()
        rows.writerows(_rows(state))


def _write_jsonl(folder: Path, state: int) -> None:
    _save_images(folder, state)
    (folder / "table.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _rows(state)))


def _write_parquet(folder: Path, state: int) -> None:
    _save_images(folder, state)
    pq.write_table(pa.Table.from_pylist(_rows(state)), folder / "table.parquet", compression="none")


def _write_hf_parquet(folder: Path, state: int) -> None:
    """Half of its images are named by their paths."""
    _save_images(folder, state, NAMES[: COUNT // 2])
    images = [
        {"bytes": None, "path": name} if number < COUNT // 2 else {"bytes": _image(number, state), "path": name}
        for number, name in enumerate(NAMES)
    ]
    labels = [_CLASSES[_label(number, state)] for number in range(COUNT)]
    pq.write_table(pa.table({"image": images, "label": labels}), folder / "photos.parquet", compression="none")


def _write_pixel_table(folder: Path, state: int) -> None:
    with (folder / "fer2013.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["emotion", "pixels"])
        for number in range(COUNT):
            value = 100 + 10 * max(1, number) + 5 * state
            rows.writerow([_label(number, state), " ".join([str(value)] * 48 * 48)])


def _write_hf_folder(folder: Path, state: int) -> None:
    (folder / "in").mkdir(parents=True)
    _write_csv(folder / "in", state, "metadata.csv")
    path = folder / "in/metadata.csv"
    path.write_text(path.read_text().replace("image,", "file_name,"))


def _write_coco(folder: Path, state: int) -> None:
    _save_images(folder / "images", state)
    content = {
        "images": [{"id": number, "file_name": name, "height": 32, "width": 32} for number, name in enumerate(NAMES)],
        "annotations": [
            {"id": number, "image_id": number, "category_id": _label(number, state), "bbox": [2, 2, 20 + state, 20]}
            for number in range(COUNT)
        ],
        "categories": [{"id": number, "name": name} for number, name in enumerate(_classes(state))],
    }
    (folder / "instances.json").write_text(json.dumps(content))


def _write_yolo(folder: Path, state: int) -> None:
    _save_images(folder / "train/images", state)
    (folder / "train/labels").mkdir()
    for number, name in enumerate(NAMES):
        (folder / "train/labels" / name.replace(".bmp", ".txt")).write_text(
            f"{_label(number, state)} 0.5 0.5 0.2 0.2\n"
        )
    (folder / "data.yaml").write_text(f"train: train/images\nnc: 2\nnames: {list(_classes(state))}\n")


def _write_voc(folder: Path, state: int) -> None:
    _save_images(folder / "JPEGImages", state, [name.replace(".bmp", ".jpg") for name in NAMES])
    (folder / "Annotations").mkdir()
    (folder / "ImageSets/Main").mkdir(parents=True)
    stems = [name.removesuffix(".bmp") for name in NAMES]
    (folder / "ImageSets/Main/train.txt").write_text("".join(f"{stem}\n" for stem in stems))
    for number, stem in enumerate(stems):
        box = "<xmin>2</xmin><ymin>2</ymin><xmax>20</xmax><ymax>20</ymax>"
        name = _CLASSES[_label(number, state)]
        (folder / f"Annotations/{stem}.xml").write_text(
            f"<annotation><filename>{stem}.jpg</filename><size><width>32</width><height>32</height><depth>3</depth>"
            f"</size><object><name>{name}</name><bndbox>{box}</bndbox></object></annotation>"
        )


def _write_documents(folder: Path, state: int) -> None:
    _save_images(folder / "images", state)
    (folder / "notes").mkdir()
    for number, name in enumerate(NAMES):
        labels = {"label": _CLASSES[_label(number, state)], "other": _CLASSES[_label(number, 1 - state)]}
        document = {"image": name, **labels, "box": [2, 2, 20 + state, 20]}
        (folder / "notes" / name.replace(".bmp", ".json")).write_text(json.dumps(document))
    key = ("label", "other")[state]
    text = f'documents: "*.json"\nimage: image\nobjects: "@"\nclass: {key}\nbox: box\nform: xywh\n'
    (folder / "mine.yaml").write_text(text)


def _members(state: int) -> dict[str, bytes]:
    return {f"{_CLASSES[_label(number, state)]}/{name}": _image(number, state) for number, name in enumerate(NAMES)}


def _write_webdataset(folder: Path, state: int) -> None:
    members = {}
    for number, name in enumerate(NAMES):
        members[name] = _image(number, state)
        members[name.replace(".bmp", ".json")] = json.dumps({"label": _CLASSES[_label(number, state)]}).encode()
    (folder / "photos.tar").write_bytes(tar_of(members))


def _write_zip(folder: Path, state: int) -> None:
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for name, data in _members(state).items():
            archive.writestr(zipfile.ZipInfo(name), data)


def _write_tfrecord(folder: Path, state: int) -> None:
    (folder / "in").mkdir()
    examples = ({"image": _image(number, state), "label": _label(number, state)} for number in range(COUNT))
    write_examples(folder / "in/x-train.tfrecord-00000-of-00001", examples)
    # In another state, the labels are not those of classes.
    kinds = {"image": "Image", "label": ("ClassLabel", "ScalarText")[state]}
    features = {name: {"pythonClassName": f"tensorflow_datasets.core.features.{kind}"} for name, kind in kinds.items()}
    (folder / "in/features.json").write_text(json.dumps({"featuresDict": {"features": features}}))
    (folder / "in/label.labels.txt").write_text("".join(f"{name}\n" for name in _classes(state)))


def _write_numpy(folder: Path, state: int) -> None:
    np.save(folder / "x.npy", np.stack([_pixels(number, state) for number in range(COUNT)]))
    np.save(folder / "y.npy", np.array([_label(number, state) for number in range(COUNT)]))


def _write_idx(folder: Path, state: int) -> None:
    images = np.stack([_pixels(number, state)[..., 0] for number in range(COUNT)])
    save_idx(folder / "train-images-idx3-ubyte", images)
    save_idx(folder / "train-labels-idx1-ubyte", np.array([_label(number, state) for number in range(COUNT)]))


def _write_cifar(folder: Path, state: int) -> None:
    images = np.stack([_pixels(number, state) for number in range(COUNT)])
    save_cifar(folder / "data_batch_1.bin", images, [_label(number, state) for number in range(COUNT)])
    (folder / "batches.meta.txt").write_text("".join(f"{name}\n" for name in _classes(state)))


# Name of a source -> what writes its input in state 0 or 1, and the flags of the request.
INPUTS: Mapping[str, tuple[Callable[[Path, int], None], Sequence[str]]] = {
    "image_folder": (_write_folder, ["--input={root}/in"]),
    "filename_pattern": (_write_pattern, ["--input={root}/in", "--label_pattern=(?P<label>cat|dog)_"]),
    "paired_images": (
        _write_pairs,
        ["--images=left={root}/left,right={root}/right", "--label_pattern=(?P<label>cat|dog)_"],
    ),
    "csv": (_write_csv, ["--input={root}/table.csv"]),
    "jsonl": (_write_jsonl, ["--input={root}/table.jsonl"]),
    "parquet": (_write_parquet, ["--input={root}/table.parquet"]),
    "hf_parquet": (_write_hf_parquet, ["--input={root}/photos.parquet"]),
    "pixel_table": (_write_pixel_table, ["--input={root}/fer2013.csv"]),
    "hf_folder": (_write_hf_folder, ["--input={root}/in", "--source=hf_folder"]),
    "coco": (_write_coco, ["--input={root}/instances.json", "--image_root={root}/images"]),
    "yolo": (_write_yolo, ["--input={root}/data.yaml"]),
    "voc": (_write_voc, ["--input={root}", "--source=voc"]),
    "documents": (
        _write_documents,
        ["--input={root}/notes", "--mapping={root}/mine.yaml", "--image_root={root}/images"],
    ),
    "tar": (
        lambda folder, state: (folder / "photos.tar").write_bytes(tar_of(_members(state))),
        ["--input={root}/photos.tar"],
    ),
    "zip": (_write_zip, ["--input={root}/photos.zip"]),
    "tfrecord": (_write_tfrecord, ["--input={root}/in", "--source=tfrecord"]),
    "numpy": (_write_numpy, ["--input={root}/x.npy"]),
    "idx": (_write_idx, ["--input={root}", "--source=idx"]),
    "cifar": (_write_cifar, ["--input={root}", "--source=cifar"]),
    "python": (_write_csv, ["--input=tests.own_rows:rows", "--parts={root}"]),
    "webdataset": (_write_webdataset, ["--input={root}/photos.tar"]),
}


def write_states(source: str, root: Path) -> tuple[Path, dict[str, bytes]]:
    """Writes the input of a source; the folder, and file -> its content in the other state, where that differs."""
    folders = [root / f"state-{state}" for state in (0, 1)]
    for state, folder in enumerate(folders):
        folder.mkdir(parents=True)
        INPUTS[source][0](folder, state)
    first, second = ({str(p.relative_to(f)): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in folders)
    assert first.keys() == second.keys()
    return folders[0], {name: data for name, data in second.items() if data != first[name]}


def flags_of(source: str, root: object) -> list[str]:
    """The flags of the request for an input of a source."""
    return [flag.format(root=root) for flag in INPUTS[source][1]]
