"""Pictures on disk, and datasets made of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.beam_pipelines.dataset_checks import CLASSES, EXACT, FLAGS
from tests.beam_pipelines.dataset_records import Record, read_dataset
from tests.beam_pipelines.version_builds import Source, make_source


def save_picture(path: Path, pixels: np.ndarray, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def make_picture(seed: int, height: int, width: int, channels: int = 3) -> np.ndarray:
    """A smooth picture, different for every seed: [H, W, C] uint8, or [H, W] for one channel."""
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 4, channels), dtype=np.uint8)
    modes = {1: coarse[:, :, 0], 3: coarse}
    return np.asarray(Image.fromarray(modes[channels]).resize((width, height), Image.Resampling.BICUBIC))


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


# Inputs and outputs of `convert`


@pytest.fixture(scope="session")
def pets(tmp_path_factory, picture, save) -> Path:
    """120 pictures of three classes under names of many kinds, and files that are not pictures."""
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
        (root / name).write_text("not a picture")
    return root


@pytest.fixture(scope="session")
def broken(pets) -> Path:
    """The pets, and seven files that cannot be converted."""
    root = pets.parent / "broken"
    shutil.copytree(pets, root)
    (root / "cat/empty.jpg").write_bytes(b"")
    (root / "cat/text.jpg").write_text("this is not a picture")
    whole = (root / "cat/cat01.png").read_bytes()
    (root / "dog/truncated.png").write_bytes(whole[: len(whole) // 2])
    (root / "dog/flipped.png").write_bytes(whole[:60] + bytes([whole[60] ^ 255]) + whole[61:])
    (root / "dog/nowhere.png").symlink_to("not-there.png")
    os.mkfifo(root / "dog/pipe.png")
    (root / "without_a_class.jpg").write_bytes((root / "cat/cat02.jpg").read_bytes())
    return root


@pytest.fixture(scope="session")
def out(pets, build) -> Path:
    """The pets as a dataset."""
    return build(pets.parent / "out", f"--input={pets}", *FLAGS, *EXACT)


# Versions


@pytest.fixture
def source_of(tmp_path, convert) -> Callable[[int], Source]:
    """Makes a folder of so many pictures, of which versions are built."""
    return lambda count: make_source(tmp_path, count, convert)
