"""An input of every source in two states: files of the same names and sizes, with other pictures and other labels."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.archive_files import tar_of
from tests.framing import write_examples
from tests.pixel_files import save_idx
from tests.writers import MEANING, WRITERS, Meaning, Writer

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


def _write_webdataset(folder: Path, state: int) -> None:
    members = {}
    for number, name in enumerate(NAMES):
        members[name] = _image(number, state)
        members[name.replace(".bmp", ".json")] = json.dumps({"label": _CLASSES[_label(number, state)]}).encode()
    (folder / "photos.tar").write_bytes(tar_of(members))


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


# Colors of the pictures in each state; the first two are the same, so that duplicates can be refused.
_COLORS = (("red", "red", "green", "blue", "cyan", "white"), ("red", "red", "blue", "yellow", "gray", "purple"))


def _meaning(state: int) -> Meaning:
    """The meaning of a state: in the second one, pictures, the order of classes and the objects of a picture differ."""
    items = [dataclasses.replace(one, color=color) for one, color in zip(MEANING.items, _COLORS[state], strict=True)]
    if state == 0:
        return dataclasses.replace(MEANING, items=items)
    turned = [("dog" if label == "cat" else "cat", box) for label, box in items[-1].objects]
    items[-1] = dataclasses.replace(items[-1], objects=turned)
    return dataclasses.replace(MEANING, items=items, classes=MEANING.classes[::-1])


def _of_writer(writer: Writer) -> tuple[Callable[[Path, int], None], Sequence[str]]:
    """What writes the input of a writer, and the flags of the request."""

    def write(folder: Path, state: int) -> None:
        writer.write(folder, writer.fit(_meaning(state)))

    with tempfile.TemporaryDirectory() as folder:
        settings = writer.write(Path(folder), writer.fit(MEANING))
        settings.pop("class_names", None)  # The tests give the same.
        return write, [f"--{name}={value}".replace(folder, "{root}") for name, value in settings.items()]


def _write_zip(folder: Path, state: int) -> None:
    """Stores the members, because compressed ones differ in size."""
    _of_writer(WRITERS["class_folders"])[0](folder / "members", state)
    with zipfile.ZipFile(folder / "pictures.zip", "w") as archive:
        for path in sorted((folder / "members/in").glob("*/*")):
            archive.writestr(zipfile.ZipInfo(f"{path.parent.name}/{path.name}"), path.read_bytes())
    shutil.rmtree(folder / "members")


# Source -> what writes its input in state 0 or 1, and the flags of the request; writers with a source add the others.
_OWN: Mapping[str, tuple[Callable[[Path, int], None], Sequence[str]]] = {
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
    "documents": (
        _write_documents,
        ["--input={root}/notes", "--mapping={root}/mine.yaml", "--image_root={root}/images"],
    ),
    "zip": (_write_zip, ["--input={root}/pictures.zip"]),
    "tfrecord": (_write_tfrecord, ["--input={root}/in", "--source=tfrecord"]),
    "numpy": (_write_numpy, ["--input={root}/x.npy"]),
    "idx": (_write_idx, ["--input={root}", "--source=idx"]),
    "python": (_write_csv, ["--input=tests.own_rows:rows", "--parts={root}"]),
    "webdataset": (_write_webdataset, ["--input={root}/photos.tar"]),
}
INPUTS = {**_OWN, **{one.source: _of_writer(one) for one in WRITERS.values() if one.source}}


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
