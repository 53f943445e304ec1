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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.framing import write_examples
from tests.writers import MEANING, WRITERS, Meaning, Writer
from tests.writers import flags_of as words_of

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


def _write_tfrecord(folder: Path, state: int) -> None:
    (folder / "in").mkdir()
    examples = ({"image": _image(number, state), "label": _label(number, state)} for number in range(COUNT))
    write_examples(folder / "in/x-train.tfrecord-00000-of-00001", examples)
    # In another state, the labels are not those of classes.
    kinds = {"image": "Image", "label": ("ClassLabel", "ScalarText")[state]}
    features = {name: {"pythonClassName": f"tensorflow_datasets.core.features.{kind}"} for name, kind in kinds.items()}
    (folder / "in/features.json").write_text(json.dumps({"featuresDict": {"features": features}}))
    (folder / "in/label.labels.txt").write_text("".join(f"{name}\n" for name in _classes(state)))


# Colors of the pictures in each state; the first two are the same, so that duplicates can be refused.
_COLORS = (("red", "red", "green", "blue", "cyan", "white"), ("red", "red", "blue", "yellow", "gray", "purple"))


def _meaning(writer: Writer, state: int) -> Meaning:
    """The meaning of a state: in the second one, pictures, labels in files, classes and the objects of one differ."""
    # Rows of an image and its label.
    is_table = "columns" in writer.holds or writer.source == "python"
    plain: dict[str, Any] = {"split": "", "columns": {}} if is_table else {}
    colors = zip(MEANING.items, _COLORS[state], strict=True)
    items = [dataclasses.replace(one, color=color, **plain) for one, color in colors]
    if state == 0:
        return writer.fit(dataclasses.replace(MEANING, items=items))
    turned = [("dog" if label == "cat" else "cat", box) for label, box in items[-1].objects]
    items[-1] = dataclasses.replace(items[-1], objects=turned)
    changed = dataclasses.replace(MEANING, items=items, classes=MEANING.classes[::-1])
    return writer.fit(changed.relabelled() if is_table else changed)


def _of_writer(writer: Writer) -> tuple[Callable[[Path, int], None], Sequence[str]]:
    """What writes the input of a writer, and the flags of the request."""

    def write(folder: Path, state: int) -> None:
        writer.write(folder, _meaning(writer, state))

    with tempfile.TemporaryDirectory() as folder:
        settings = writer.write(Path(folder), _meaning(writer, 0))
        settings.pop("class_names", None)  # The tests give the same.
        return write, [word.replace(folder, "{root}") for word in words_of(settings)]


def _write_zip(folder: Path, state: int) -> None:
    """Stores the members, because compressed ones differ in size."""
    _of_writer(WRITERS["class_folders"])[0](folder / "members", state)
    with zipfile.ZipFile(folder / "pictures.zip", "w") as archive:
        for path in sorted((folder / "members/in").glob("*/*")):
            archive.writestr(zipfile.ZipInfo(f"{path.parent.name}/{path.name}"), path.read_bytes())
    shutil.rmtree(folder / "members")


# Source -> what writes its input in state 0 or 1, and the flags of the request; writers with a source add the others.
_OWN: Mapping[str, tuple[Callable[[Path, int], None], Sequence[str]]] = {
    "hf_parquet": (_write_hf_parquet, ["--input={root}/photos.parquet"]),
    "pixel_table": (_write_pixel_table, ["--input={root}/fer2013.csv"]),
    "documents": (
        _write_documents,
        ["--input={root}/notes", "--mapping={root}/mine.yaml", "--image_root={root}/images"],
    ),
    "zip": (_write_zip, ["--input={root}/pictures.zip"]),
    "tfrecord": (_write_tfrecord, ["--input={root}/in", "--source=tfrecord"]),
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
