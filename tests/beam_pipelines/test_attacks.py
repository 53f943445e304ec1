"""The table of attacks in docs/security.md: each row, and what it gets."""

from __future__ import annotations

import csv
import json
import os
import re
import socket
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.annotated_inputs import PICTURES, write_yolo

PAGE = Path(__file__).parents[2] / "docs/security.md"
ROWS = re.findall(r"^\| (?!attack)(.+?) \| .+ \|$", PAGE.read_text(), re.MULTILINE)
# Rows that other tests are about: part of the row -> the test.
ELSEWHERE = {
    "an archive of some KB": "tests/core/test_tar_bombs.py",
    "in the place of an image": "tests/core/storage/test_local.py",
    "or a cloud's metadata": "tests/core/storage/test_web.py",
    "a password in a URL": "tests/beam_pipelines/test_web_images.py",
    "a manifest that names": "tests/beam_pipelines/test_compatibility.py",
    "any other value in any field": "tests/beam_pipelines/test_foreign_manifests.py",
    "escape sequences": "tests/beam_pipelines/test_hostile_names.py",
    "XML": "tests/cases/voc.yaml",
    "a member of an archive": "tests/cases/archives.yaml",
}
FLAGS = ("--image_size=8", "--max_failures=0.9", "--direct_num_workers=1")


def _png_of(side: int) -> bytes:
    """A PNG that says how large it is, and has no pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [header, b"IDAT" + zlib.compress(bytes(100)), b"IEND"]
    framed = (struct.pack(">I", len(one) - 4) + one + struct.pack(">I", zlib.crc32(one)) for one in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


@pytest.fixture(scope="module")
def built(tmp_path_factory, picture, save, run) -> dict[str, str]:
    """The reason for each cell of a table that a stranger has made; a build of it asks no store."""
    root = tmp_path_factory.mktemp("table")
    save(root / "in/good.png", picture(1, 20, 20))
    save(root / "in/x.png", picture(2, 20, 20))
    save(root / "x.png", picture(3, 20, 20))
    save(root / "elsewhere/below/x.png", picture(4, 20, 20))
    save(root / "elsewhere/x.png", picture(5, 20, 20))
    (root / "in/link").symlink_to(root / "elsewhere/below")
    os.mkfifo(root / "in/pipe.png")
    (root / "in/device.png").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(root / "in/socket.png"))
    (root / "in/bomb.png").write_bytes(_png_of(30_000))
    cells = ["good.png", "../x.png", f"{root}/x.png", f"file://{root}/x.png", "s3://bucket/x.png", "link/../x.png"]
    cells += ["pipe.png", "device.png", "made_up.png", "socket.png", "bomb.png", "http://127.0.0.1:1/x.png"]
    with (root / "in/table.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("image", "label"), *((cell, "ab"[number % 2]) for number, cell in enumerate(cells))]
        )
    output = root / "out"
    ran = run("convert", f"--input={root / 'in/table.csv'}", f"--output={output}", *FLAGS)
    assert ran.code == 0, ran.err
    failed = {
        one["key"]: one["reason"] for one in map(json.loads, (output / "failures.jsonl").read_text().splitlines())
    }
    return {cell.replace(str(root), ""): failed.get(cell, "") for cell in cells}


def test_each_row_has_a_test():
    here = ("names `../x.jpg`", "names `s3://", "names `link/", "30,000", *REFUSED)
    for attack in ROWS:
        assert sum(part in attack for part in (*here, *ELSEWHERE)) == 1, attack
    assert all((PAGE.parents[1] / path).is_file() for path in ELSEWHERE.values())


def test_a_table_reads_nothing_of_others(built):
    assert built == {
        "good.png": "", "../x.png": "outside_root", "/x.png": "outside_root", "file:///x.png": "outside_root",
        "s3://bucket/x.png": "outside_root", "link/../x.png": "", "pipe.png": "unreadable",
        "device.png": "unreadable", "made_up.png": "unreadable", "socket.png": "unreadable",
        "bomb.png": "too_many_pixels", "http://127.0.0.1:1/x.png": "unreadable",
    }  # fmt: skip


def _yolo(root: Path) -> list[str]:
    write_yolo(root / "other", {"train": PICTURES})
    (root / "in").mkdir()
    (root / "in/data.yaml").write_text(f"path: {root / 'other'}\ntrain: train/images\nnames: [a, b, c]\n")
    return [f"--input={root / 'in/data.yaml'}", "--layout=detection"]


def _pickled_array(root: Path) -> list[str]:
    np.save(root / "x.npy", np.array([_Harm(root / "run")], object), allow_pickle=True)
    return [f"--input={root / 'x.npy'}"]


class _Harm:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (str(self._path),)


def _yaml(root: Path) -> list[str]:
    (root / "data.yaml").write_text(f"train: !!python/object/apply:os.mkdir [{root / 'run'}]\nnames: [a]\n")
    return [f"--input={root / 'data.yaml'}"]


def _pipe(root: Path) -> list[str]:
    os.mkfifo(root / "table.csv")
    return [f"--input={root / 'table.csv'}"]


# What writes an input below a folder, and gives the flags of a request that is refused; part of the row.
REFUSED: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "a data file of YOLO names": (_yolo, "files outside"),
    "a pickle in an array": (_pickled_array, "x.npy cannot be read"),
    "YAML with tags": (_yaml, "could not determine a constructor"),
    "a pipe or a device as input": (_pipe, "is not a regular file"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_an_input_is_refused(row, tmp_path, run):
    write, problem = REFUSED[row]
    ran = run("convert", *write(tmp_path), f"--output={tmp_path / 'out'}", *FLAGS)
    assert ran.code in (1, 2), ran.err
    assert problem in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "run").exists()
