"""Nights of a dataset that is built every night: its input changes, builds are killed or suspended, versions pinned.

One seed is one history. After each night the rules are checked that hold whatever has happened.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import random
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from beam_tfrecords.dataset import open_whole
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, find_all, manifest_of, shards_of
from tests.conftest import Ran

FLAGS = ["--name=pets", "--image_size=8", "--splits=train=0.7,test=0.3", "--image_encoding=png", "--codec=exact"]
CLASSES = ("cat", "dog", "owl", "ant", "bee")
# Somebody's, in every place where versions and temporary files are.
FOREIGN = (
    "notes.txt",
    "20200101T000000Z/photo.jpg",
    ".build/keep/me.txt",
)


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture of the input: its seed decides the pixels."""

    seed: int
    label: str

    def png(self) -> bytes:
        file = io.BytesIO()
        Image.fromarray(self.pixels()).save(file, "PNG", compress_level=0)
        return file.getvalue()

    def pixels(self) -> np.ndarray:
        return np.random.default_rng(self.seed).integers(0, 256, (12, 12, 3), dtype=np.uint8)


def _write(path: Path, data: bytes) -> None:
    """Leaves a file alone that is as it should be, as a person would."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Makes a folder have these files and no others."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if str(path.relative_to(folder)) not in files:
            path.unlink()
    for name, data in files.items():
        _write(folder / name, data)


def _as_folder(folder: Path, pictures: Mapping[str, Picture]) -> list[str]:
    _write_all(folder, {f"{one.label}/{name}.png": one.png() for name, one in pictures.items()})
    return [f"--input={folder}"]


def _as_table(folder: Path, pictures: Mapping[str, Picture]) -> list[str]:
    rows = "".join(f"images/{name}.png,{one.label}\n" for name, one in sorted(pictures.items()))
    files = {f"images/{name}.png": one.png() for name, one in pictures.items()}
    _write_all(folder, {**files, "rows.csv": f"image,label\n{rows}".encode()})
    return [f"--input={folder / 'rows.csv'}"]


def _as_tar(folder: Path, pictures: Mapping[str, Picture]) -> list[str]:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, one in sorted(pictures.items()):
            data, member = one.png(), tarfile.TarInfo(f"{one.label}/{name}.png")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    _write_all(folder, {"photos.tar": file.getvalue()})
    return [f"--input={folder / 'photos.tar'}"]


def _as_arrays(folder: Path, pictures: Mapping[str, Picture]) -> list[str]:
    """The labels are in a file of their own beside the pixels."""
    files = {}
    values = {
        "x.npy": np.stack([one.pixels() for _, one in sorted(pictures.items())]),
        "y.npy": np.array([CLASSES.index(one.label) for _, one in sorted(pictures.items())], np.int64),
    }
    for name, array in values.items():
        file = io.BytesIO()
        np.save(file, array)
        files[name] = file.getvalue()
    _write_all(folder, files)
    return [f"--input={folder / 'x.npy'}", f"--class_names={','.join(CLASSES)}"]


def _as_coco(folder: Path, pictures: Mapping[str, Picture]) -> list[str]:
    labels = sorted({one.label for one in pictures.values()})
    names = sorted(pictures)
    annotations = {
        "images": [
            {"id": number, "file_name": f"{name}.png", "width": 12, "height": 12} for number, name in enumerate(names)
        ],
        "categories": [{"id": number, "name": label} for number, label in enumerate(labels, 1)],
        "annotations": [
            {
                "id": number,
                "image_id": number,
                "category_id": labels.index(pictures[name].label) + 1,
                "bbox": [1, 2, 5, 6],
                "area": 30,
                "iscrowd": 0,
            }
            for number, name in enumerate(names)
        ],
    }
    _write_all(folder / "images", {f"{name}.png": one.png() for name, one in pictures.items()})
    _write(folder / "annotations.json", json.dumps(annotations).encode())
    return [f"--input={folder / 'annotations.json'}", f"--image_root={folder / 'images'}"]


SOURCES: Mapping[str, Callable[[Path, Mapping[str, Picture]], list[str]]] = {
    "folder": _as_folder,
    "table": _as_table,
    "tar": _as_tar,
    "arrays": _as_arrays,
    "coco": _as_coco,
}


class History:
    """A sequence of nights.

    Args:
      root: an empty folder.
      source: one of `SOURCES`.
      run: runs a command in this process.
      disturbs: whether builds are killed, suspended and run out of disk, which takes processes of their own.
    """

    def __init__(self, root: Path, source: str, seed: int, *, run: Callable[..., Ran], disturbs: bool) -> None:
        self._random = random.Random(f"{source} {seed}")
        self._input, self._out, self._scratch = root / "in", root / "out", root / "scratch"
        self._write_source, self._run, self._disturbs = SOURCES[source], run, disturbs
        self._pictures: dict[str, Picture] = {}
        self._next = 0
        self._pinned: str | None = None
        self._log: list[str] = []
        for name in FOREIGN:
            path = self._out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("somebody's")
        for _ in range(12):
            self._add()

    def night(self) -> None:
        """Changes the input, builds, and checks what must hold."""
        self._change()
        self._turn_pin()
        flags = self._write_source(self._input, self._pictures)
        keep = self._random.choice((1, 2, 3, 7))
        words = [*flags, *FLAGS, "--versioned", f"--keep_versions={keep}", "--grace=0", "--guard=off"]
        if self._random.random() < 0.2:
            words.append("--fingerprint=content")
        disturbance = self._random.choice(("none", "none", "kill", "suspend", "disk")) if self._disturbs else "none"
        before = self._whole()
        self._log.append(f"{disturbance} {' '.join(words)} pinned={self._pinned} before={before}")
        published = getattr(self, f"_build_{disturbance}")(words)
        self._check(words, flags, before=before, keep=keep, published=published)

    def _add(self) -> None:
        self._pictures[f"{self._next:04d}"] = Picture(self._next, self._random.choice(CLASSES[:3]))
        self._next += 1

    def _change(self) -> None:
        for _ in range(self._random.choice((0, 0, 1, 2, 3))):
            name = self._random.choice(sorted(self._pictures))
            one = self._pictures[name]
            kind = self._random.choice(("add", "remove", "edit", "label"))
            if kind == "add":
                self._add()
            elif kind == "remove" and len(self._pictures) > 6:
                del self._pictures[name]
            elif kind == "edit":
                self._next += 1
                self._pictures[name] = dataclasses.replace(one, seed=self._next)
            elif kind == "label":
                self._pictures[name] = dataclasses.replace(one, label=self._random.choice(CLASSES))

    def _turn_pin(self) -> None:
        whole = self._whole()
        if self._pinned is None and len(whole) > 1 and self._random.random() < 0.15:
            self._pinned = self._random.choice(whole)
            ran = self._run("status", f"--output={self._out}", f"--pin={self._pinned}")
            assert ran.code == 0, ran.err
        elif self._pinned is not None and self._random.random() < 0.4:
            self._pinned = None
            ran = self._run("status", f"--output={self._out}", "--unpin")
            assert ran.code == 0, ran.err

    def _build_none(self, words: list[str]) -> bool:
        ran = self._run("convert", f"--output={self._out}", *words)
        assert ran.code == 0, (ran.err, self._log)
        return True

    def _start(self, words: list[str]) -> subprocess.Popen:
        return subprocess.Popen(
            [BEAM_TFRECORDS, "convert", f"--output={self._out}", *words, "--quiet"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(self._out.parent)},
        )

    def _build_kill(self, words: list[str]) -> bool:
        process = self._start(words)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self._random.uniform(0.5, 3))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        # Workers of a killed launcher end a moment later.
        time.sleep(0.2)
        return process.returncode == 0

    def _build_suspend(self, words: list[str]) -> bool:
        """Another launch while one is suspended is refused, and does it no harm."""
        process = self._start(words)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self._random.uniform(0.5, 3))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGSTOP)
            ran = self._run("convert", f"--output={self._out}", *words)
            assert ran.code in (0, 2), (ran.err, self._log)
            os.kill(process.pid, signal.SIGCONT)
        _, err = process.communicate(timeout=120)
        assert process.returncode in (0, 2), (err, self._log)
        return True

    def _build_disk(self, words: list[str]) -> bool:
        """No file may be larger than some kilobytes, as on a disk that is nearly full."""
        command = f"ulimit -f {self._random.choice((2, 6, 20))}; trap '' XFSZ; exec \"$@\""
        ran = subprocess.run(
            ["bash", "-c", command, "bash", BEAM_TFRECORDS, "convert", f"--output={self._out}", *words, "--quiet"],
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in ran.stderr, (ran.stderr, self._log)
        return ran.returncode == 0

    def _versions(self) -> list[str]:
        named = (path.name for path in self._out.iterdir() if path.is_dir() and path.name[:1] == "2")
        return sorted(name for name in named if f"{name}/photo.jpg" not in FOREIGN)

    def _whole(self) -> list[str]:
        return [name for name in self._versions() if open_whole(str(self._out / name))[0] is not None]

    def _check(self, words: list[str], flags: list[str], *, before: list[str], keep: int, published: bool) -> None:
        for name in FOREIGN:
            assert (self._out / name).read_text() == "somebody's", (name, self._log)
        after = self._whole()
        ever = sorted({*before, *after})
        assert set(ever[len(ever) - min(keep, len(ever)) :]) <= set(after), (ever, after, self._log)
        if not after:
            assert not before, self._log
            return
        latest = (self._out / "LATEST").read_text().strip()
        assert latest in after, self._log
        assert find_all(self._out / latest) == [], self._log
        if self._pinned is not None:
            assert latest == self._pinned, self._log
        if not published:
            return
        # What was built for tonight is the newest, whether or not LATEST is held elsewhere.
        newest = self._out / after[-1]
        assert self._pinned is not None or latest == after[-1], self._log
        assert self._versions() == after, self._log
        names = manifest_of(newest)["class_names"]
        shutil.rmtree(self._scratch, ignore_errors=True)
        scratch = [word for word in flags if not word.startswith("--class_names")]
        ran = self._run(
            "convert", f"--output={self._scratch}", *scratch, *FLAGS, f"--class_names={','.join(names)}", "--quiet"
        )
        assert ran.code == 0, (ran.err, self._log)
        assert shards_of(newest) == shards_of(self._scratch), self._log
