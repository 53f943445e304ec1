"""Commands run in this process, pictures on disk, and datasets read back with TensorFlow's own reader."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

from beam_pipelines.cli import main
from tests.beam_pipelines.dataset_checks import CLASSES, EXACT, FLAGS

# Beam's local runner in this process: a build takes half a second in place of three.
IN_PROCESS = ("--direct_running_mode=in_memory", "--direct_num_workers=1")
PHOTOS = Path(__file__).parents[1] / "data/photos"


@dataclasses.dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclasses.dataclass(frozen=True)
class Record:
    """A record as TensorFlow reads it, beside its index row."""

    key: str
    row: Mapping[str, Any]
    kinds: Mapping[str, str]
    values: Mapping[str, list[Any]]
    size: int

    def __getitem__(self, feature: str) -> Any:
        (value,) = self.values[feature]
        return value


def run_command(*words: Any) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return Ran(code, out.getvalue(), err.getvalue())


def build_dataset(output: Path, *words: Any) -> Path:
    ran = run_command("convert", f"--output={output}", *words, *IN_PROCESS)
    assert ran.code == 0, ran.err
    return output


def read_dataset(path: Path, split: str) -> list[Record]:
    manifest = json.loads((path / "manifest.json").read_text())
    kind = "GZIP" if manifest["spec"]["compression"] == "gzip" else ""
    records = []
    for shard in manifest["shards"]:
        if shard["split"] != split:
            continue
        rows = pq.read_table(path / shard["index"]).to_pylist()
        stored = tf.data.TFRecordDataset(str(path / shard["file"]), compression_type=kind)
        for row, data in zip(rows, stored.as_numpy_iterator(), strict=True):
            example = tf.train.Example.FromString(data).features.feature
            kinds = {name: feature.WhichOneof("kind") for name, feature in example.items()}
            values = {name: list(getattr(feature, kinds[name]).value) for name, feature in example.items()}
            records.append(Record(row["key"], row, kinds, values, len(data)))
    return records


def save_picture(path: Path, pixels: np.ndarray, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def make_picture(seed: int, height: int, width: int, channels: int = 3) -> np.ndarray:
    """A smooth picture that no other seed has: [H, W, C] uint8, or [H, W] for one channel."""
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 4, channels), dtype=np.uint8)
    modes = {1: coarse[:, :, 0], 3: coarse}
    return np.asarray(Image.fromarray(modes[channels]).resize((width, height), Image.Resampling.BICUBIC))


@pytest.fixture(scope="session")
def photos() -> Path:
    return PHOTOS


@pytest.fixture(scope="session")
def run() -> Callable[..., Ran]:
    """Runs a command line in this process."""
    return run_command


@pytest.fixture(scope="session")
def convert() -> Callable[..., Ran]:
    """Runs `convert` in this process, Beam's workers included."""
    return lambda *words: run_command("convert", *words, *IN_PROCESS)


@pytest.fixture(scope="session")
def build() -> Callable[..., Path]:
    """Builds a dataset in this process from an output folder and flags; returns the folder."""
    return build_dataset


@pytest.fixture(scope="session")
def read() -> Callable[[Path, str], list[Record]]:
    """The records of a split, in order."""
    return read_dataset


@pytest.fixture(scope="session")
def picture() -> Callable[..., np.ndarray]:
    """Makes a picture from seed, height and width; `channels` is 3 or 1."""
    return make_picture


@pytest.fixture(scope="session")
def save() -> Callable[..., Path]:
    """Saves pixels at a path, with options for Pillow; returns the path."""
    return save_picture


@pytest.fixture(scope="session")
def snapshot() -> Callable[..., dict[str, bytes]]:
    """Everything below a folder: relative path -> content (folders end in a slash)."""

    def take(root: Path, *, without: Iterable[str] = ()) -> dict[str, bytes]:
        found = {}
        for folder, _, files in os.walk(root):
            relative = os.path.relpath(folder, root)
            found[f"{relative}/"] = b""
            found.update((os.path.normpath(f"{relative}/{file}"), Path(folder, file).read_bytes()) for file in files)
        return {name: content for name, content in found.items() if not name.startswith(tuple(without))}

    return take


@pytest.fixture
def temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for everything that goes to the system's temporary folder."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


# What tests of `convert` start from


@pytest.fixture(scope="session")
def pets(tmp_path_factory, picture, save) -> Path:
    """120 pictures of three classes under names of many kinds, and files that are no pictures."""
    root = tmp_path_factory.mktemp("convert") / "pets"
    for label, name in enumerate(CLASSES):
        for number in range(40):
            folder = root / name / ("in a deeper folder" if number % 5 == 0 else "")
            stem = f"{name} {number:02d} 写真" if number % 7 == 0 else f"{name}{number:02d}"
            pixels = picture(100 * label + number, 30 + number, 60 - number)
            save(folder / f"{stem}.{'png' if number % 2 else 'jpg'}", pixels)
    for name in (
        ".DS_Store",
        "cat/.hidden.jpg",
        ".trash/cat/old.jpg",
        "cat/notes.txt",
        "dog/Thumbs.db",
        "list.TXT",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("no picture")
    return root


@pytest.fixture(scope="session")
def broken(pets) -> Path:
    """The pets, and seven files that cannot become records."""
    root = pets.parent / "broken"
    shutil.copytree(pets, root)
    (root / "cat/empty.jpg").write_bytes(b"")
    (root / "cat/text.jpg").write_text("this is no picture")
    whole = (root / "cat/cat01.png").read_bytes()
    (root / "dog/truncated.png").write_bytes(whole[: len(whole) // 2])
    (root / "dog/flipped.png").write_bytes(whole[:60] + bytes([whole[60] ^ 255]) + whole[61:])
    (root / "dog/nowhere.png").symlink_to("not-there.png")
    os.mkfifo(root / "dog/pipe.png")
    (root / "without_a_class.jpg").write_bytes((root / "cat/cat02.jpg").read_bytes())
    return root


@pytest.fixture(scope="session")
def out(pets, build) -> Path:
    """The pets, converted."""
    return build(pets.parent / "out", f"--input={pets}", *FLAGS, *EXACT)


# What tests of `verify` start from


@pytest.fixture(scope="session")
def datasets(tmp_path_factory, picture, save, build) -> dict[str, Path]:
    """40 pictures as datasets of several kinds, for reading only."""
    folder = tmp_path_factory.mktemp("verify")
    for number in range(40):
        name = ("cat", "dog")[number % 2]
        save(folder / "pets" / name / f"{number}.png", picture(number, 24, 30))
    common = ["--name=pets", "--splits=train=0.7,test=0.3", "--image_size=16x20", "--resize_mode=exact"]
    flags = {
        "plain": [],
        "gzip": ["--compression=gzip"],
        "raw": ["--layout=raw", "--image_encoding=raw"],
        "tutorial": ["--layout=tutorial"],
        "another": ["--seed=1"],
    }
    return {
        name: build(folder / name, f"--input={folder / 'pets'}", *common, "--num_shards=2", *more)
        for name, more in flags.items()
    }


@pytest.fixture
def damaged(datasets, tmp_path) -> Callable[..., Path]:
    """A copy of a dataset, to be damaged."""
    return lambda name="plain": shutil.copytree(datasets[name], tmp_path / name)


@pytest.fixture
def verify(run) -> Callable[[Path], Any]:
    """Runs the command in this process."""
    return lambda path, *words: run("verify", f"--dataset={path}", *words, *IN_PROCESS)
