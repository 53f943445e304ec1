"""The programs of docs/unsupported.md make datasets of the files that no source reads."""

from __future__ import annotations

import json
import pickle
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from beam_tfrecords import open_dataset
from tests.docs.following import run_here
from tests.docs.inputs import PHOTOS
from tests.docs.pages import UNSUPPORTED, Passage, passages_of

ROWS = [(f"cat/{number}.jpg", "cat") for number in range(3)] + [
    (f"flower/{number}.jpg", "flower") for number in range(3)
]
IMAGES = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def _table() -> dict[str, list[str]]:
    return {"image": [image for image, _ in ROWS], "label": [label for _, label in ROWS]}


def _save_excel() -> None:
    pytest.importorskip("openpyxl")
    pytest.importorskip("pandas").DataFrame(_table()).to_excel("table.xlsx", index=False)


def _save_pickle() -> None:
    Path("table.pkl").write_bytes(pickle.dumps(pytest.importorskip("pandas").DataFrame(_table())))


def _save_pytorch() -> None:
    torch = pytest.importorskip("torch")
    torch.save((torch.tensor(IMAGES), torch.tensor(LABELS)), "training.pt")


def _save_hdf5() -> None:
    with pytest.importorskip("h5py").File("arrays.h5", "w") as file:
        file["images"], file["labels"] = IMAGES, LABELS


def _save_matlab() -> None:
    arrays = {"X": np.moveaxis(np.stack([IMAGES] * 3, -1), 0, -1), "y": LABELS[:, None] + 1}
    pytest.importorskip("scipy.io").savemat("train_32x32.mat", arrays)


def _save_arrow() -> None:
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "flower"], "_type": "ClassLabel"}}
    for split, rows in (("train", ROWS[::2]), ("test", ROWS[1::2])):
        images = [{"bytes": Path(image).read_bytes(), "path": None} for image, _ in rows]
        table = pa.table({"image": images, "label": [int(label == "flower") for _, label in rows]})
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        folder = Path("saved") / split
        folder.mkdir(parents=True)
        with pa.ipc.new_stream(str(folder / "data-00000-of-00001.arrow"), table.schema) as file:
            file.write_table(table)
        (folder / "state.json").write_text("{}")


def _save_lmdb() -> None:
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open("data.mdb", subdir=False) as database, database.begin(write=True) as values:
        for image, _ in ROWS:
            values.put(image.encode(), Path(image).read_bytes())


def _save_7z() -> None:
    if shutil.which("7z") is None:
        pytest.skip("needs the program 7z")
    subprocess.run(["7z", "a", "archive.7z", "cat", "flower"], check=True)


def _save_json_array() -> None:
    Path("array.json").write_text(json.dumps([{"image": image, "label": label} for image, label in ROWS]))


def _save_json_object() -> None:
    Path("labels.json").write_text(json.dumps(dict(ROWS)))


def _save_pairs() -> None:
    for number, (image, label) in enumerate(ROWS):
        Path(image).rename(f"{label}/{label}_{number + 1:04}.jpg")
    pairs = ["cat\t1\t2", "cat\t2\t3", "flower\t4\t5", "cat\t1\tflower\t4", "cat\t2\tflower\t5", "cat\t3\tflower\t6"]
    Path("pairs.txt").write_text("\n".join(["1\t3", *pairs, ""]))


# Heading -> what makes the input; of all, six records are made.
INPUTS: dict[str, Callable[[], None]] = {
    "excel-tables": _save_excel,
    "pickles": _save_pickle,
    "pytorch-files": _save_pytorch,
    "hdf5-files": _save_hdf5,
    "arrow-files": _save_arrow,
    "matlab-files": _save_matlab,
    "lmdb-databases": _save_lmdb,
    "7z-and-rar-archives": _save_7z,
    "json-arrays": _save_json_array,
    "json-objects-of-names-and-labels": _save_json_object,
    "lists-of-pairs": _save_pairs,
}


def _headings() -> dict[str, list[Passage]]:
    """Heading, as in a link -> its passages."""
    lines = UNSUPPORTED.read_text(encoding="utf-8").splitlines()
    starts = {re.sub(r"\W+", "-", line[3:].lower()): n for n, line in enumerate(lines, 1) if line.startswith("## ")}
    return {
        heading: [one for one in passages_of(UNSUPPORTED) if start < one.line < following]
        for (heading, start), following in zip(starts.items(), [*starts.values(), len(lines)][1:], strict=True)
    }


def test_every_section_but_that_of_another_version_has_an_input():
    assert _headings().keys() - INPUTS.keys() == {"cifar-pickles"}


@pytest.mark.parametrize(
    "heading", [pytest.param(name, marks=pytest.mark.nightly if "7z" in name else ()) for name in INPUTS]
)
def test_the_program_makes_a_dataset(heading, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    photos = {kind: sorted((PHOTOS / kind).iterdir()) for kind in ("cat", "flower")}
    for image, label in ROWS:
        Path(image).parent.mkdir(exist_ok=True)
        shutil.copyfile(photos[label].pop(), image)
    INPUTS[heading]()
    *programs, convert = _headings()[heading]
    assert programs
    for program in programs:
        if program.language == "python":
            exec(compile(program.text, program.name, "exec"), {})
        else:
            subprocess.run(["bash", "-euc", program.text], check=True)
    run_here(convert.text)
    (output,) = (word.partition("=")[2] for word in shlex.split(convert.text) if word.startswith("--output="))
    assert open_dataset(output).manifest["records"] == len(ROWS)


def test_what_save_to_disk_writes_keeps_its_splits_and_classes(tmp_path, monkeypatch):
    test_the_program_makes_a_dataset("arrow-files", tmp_path, monkeypatch)
    manifest = open_dataset("out/saved").manifest
    assert manifest["class_names"] == ["cat", "flower"]
    assert {split: found["records"] for split, found in manifest["splits"].items()} == {"train": 3, "test": 3}
