"""Nights of a dataset that is built every night.

Its input changes; builds are killed, suspended, run out of disk, or start twice; users copy, rename, restore, link, pin
and damage versions. One seed is one history. After each night the rules are checked that hold whatever has happened.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

import beam_tfrecords
from tests.archive_files import tar_of
from tests.beam_pipelines.dataset_checks import BEAM_TFRECORDS, manifest_of, shards_of
from tests.beam_pipelines.user_folders import UserFolders, damage
from tests.core.commands import Ran

FLAGS = ["--name=pets", "--image_size=8", "--splits=train=0.7,test=0.3", "--image_encoding=png", "--codec=exact"]
CLASSES = ("cat", "dog", "owl", "ant", "bee")
# Somebody's, in every place where versions and temporary files are.
FOREIGN = (
    "notes.txt",
    "20000101T000000Z/photo.jpg",
    ".build/keep/me.txt",
)


DISTURBANCES = ("none", "none", "kill", "suspend", "disk", "twice")


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


def read_latest(out: Path) -> str | None:
    """The version that LATEST names, if any."""
    return (out / "LATEST").read_text().strip() if (out / "LATEST").exists() else None


def is_whole(version: Path) -> bool:
    """Whether a folder has the manifest that `_SUCCESS` names, and all files of it in their sizes."""
    try:
        data, success = (version / "manifest.json").read_bytes(), json.loads((version / "_SUCCESS").read_bytes())
    except (OSError, ValueError):
        return False
    if hashlib.sha256(data).hexdigest() != success["manifest_sha256"]:
        return False
    manifest = json.loads(data)
    sizes = dict.fromkeys(manifest["files"]) | manifest["sizes"]
    for shard in manifest["shards"]:
        sizes |= {shard["file"]: shard["bytes"], shard["index"]: shard["index_bytes"]}
    paths = {version / name: size for name, size in sizes.items()}
    is_there = all(path.exists() and size in (None, path.stat().st_size) for path, size in paths.items())
    return is_there and not (version / "_REMOVED").exists()


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
    _write_all(
        folder, {"photos.tar": tar_of({f"{one.label}/{name}.png": one.png() for name, one in sorted(pictures.items())})}
    )
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
      disturbs: whether builds are killed, suspended, run out of disk and start twice, which takes processes of their
        own.
    """

    def __init__(self, root: Path, source: str, seed: int, *, run: Callable[..., Ran], disturbs: bool) -> None:
        self._random = random.Random(f"{source} {seed}")
        self._input, self._out, self._scratch = root / "in", root / "out", root / "scratch"
        self._write_source, self._run, self._disturbs = SOURCES[source], run, disturbs
        self._pictures: dict[str, Picture] = {}
        self._next = 0
        self._pinned: str | None = None
        # A version that LATEST names and that cannot be read.
        self._damaged: str | None = None
        self._log: list[str] = []
        self._user = UserFolders(self._out, root / "archive", self._random)
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
        words = [*flags, *FLAGS, "--versioned", f"--keep_versions={keep}", "--grace=0", "--guard=off", "--quiet"]
        if self._random.random() < 0.2:
            words.append("--fingerprint=content")
        whole = self._whole()
        held = {self._pinned, read_latest(self._out)}
        self._log += [f"user: {told}" for told in self._user.act([name for name in whole if name not in held], whole)]
        disturbance = self._random.choice(DISTURBANCES) if self._disturbs else "none"
        if disturbance == "none":
            self._damage(words)
        before = self._whole()
        self._log.append(f"{disturbance} {' '.join(words)} pinned={self._pinned} before={before}")
        published = getattr(self, f"_build_{disturbance}")(words)
        self._check(flags, before=before, keep=keep, published=published)
        if self._damaged:
            # Whoever has damaged it clears it away. If it had vanished, the new version may have its name.
            if self._damaged not in self._whole():
                shutil.rmtree(self._out / self._damaged, ignore_errors=True)
            self._damaged = None

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

    def _damage(self, words: list[str]) -> None:
        """Damages the version that LATEST names; while it is pinned, a build is refused until the pin is mended."""
        latest = read_latest(self._out)
        if latest is None or self._user.is_linked(latest) or self._random.random() > 0.15:
            return
        damage(self._out / latest, self._random)
        self._log.append(f"damaged: {latest}")
        self._check_status(is_readable=False)
        if self._pinned is None:
            self._damaged = latest
            return
        listed = sorted(self._out.rglob("*"))
        ran = self._run("convert", f"--output={self._out}", *words)
        assert (ran.code, f"PINNED names {latest}, which is " in ran.err) == (2, True), (ran.err, self._log)
        assert sorted(self._out.rglob("*")) == listed, self._log
        self._pinned, whole = None, self._whole()
        ran = self._run("status", f"--output={self._out}", "--unpin")
        assert (ran.code, ran.err) == (0 if whole else 1, ""), (ran.err, self._log)
        if whole:
            assert read_latest(self._out) == whole[-1], self._log
            shutil.rmtree(self._out / latest, ignore_errors=True)
        else:
            self._damaged = latest

    def _build_none(self, words: list[str]) -> bool:
        ran = self._run("convert", f"--output={self._out}", *words)
        assert (ran.code, ran.out) == (0, ""), (ran.err, self._log)
        said = ran.err.splitlines()
        assert len(said) == bool(self._damaged), (said, self._log)
        assert all(f"LATEST names {self._damaged}, which is " in line for line in said), (said, self._log)
        return True

    def _build_twice(self, words: list[str]) -> bool:
        """Of two builds at once, one is refused, or comes later."""
        processes = [self._start(words) for _ in range(2)]
        said = [process.communicate(timeout=300)[1] for process in processes]
        codes = sorted(process.returncode for process in processes)
        assert codes in ([0, 0], [0, 4]), (codes, said, self._log)
        refused = [line for err in said for line in err.splitlines()]
        assert len(refused) == codes.count(4), (refused, self._log)
        assert all("another build is writing to it" in line for line in refused), (refused, self._log)
        return True

    def _start(self, words: list[str]) -> subprocess.Popen:
        return subprocess.Popen(
            [BEAM_TFRECORDS, "convert", f"--output={self._out}", *words],
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
            assert ran.code in (0, 4), (ran.err, self._log)
            os.kill(process.pid, signal.SIGCONT)
        _, err = process.communicate(timeout=120)
        assert process.returncode in (0, 2, 4), (err, self._log)
        return True

    def _build_disk(self, words: list[str]) -> bool:
        """No file may be larger than some kilobytes, as on a disk that is nearly full."""
        command = f"ulimit -f {self._random.choice((2, 6, 20))}; trap '' XFSZ; exec \"$@\""
        ran = subprocess.run(
            ["bash", "-c", command, "bash", BEAM_TFRECORDS, "convert", f"--output={self._out}", *words],
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in ran.stderr, (ran.stderr, self._log)
        return ran.returncode == 0

    def _versions(self) -> list[str]:
        named = (path.name for path in self._out.iterdir() if path.is_dir() and path.name[:1] == "2")
        return sorted(name for name in named if name not in self._foreign())

    def _foreign(self) -> list[str]:
        """The folders that are named like versions, and are none."""
        own = (name.partition("/")[0] for name in FOREIGN if name.endswith(".jpg"))
        return sorted([*own, *self._user.names])

    def _whole(self) -> list[str]:
        return [name for name in self._versions() if is_whole(self._out / name)]

    def _check_status(self, *, is_readable: bool) -> None:
        """Says which folders are versions, and fails if LATEST cannot be read, and only then says what is damaged."""
        ran = self._run("status", f"--output={self._out}", "--json")
        found = json.loads(ran.out)
        assert (ran.code, not found["notes"]) == ((0, True) if is_readable else (1, False)), (found, self._log)
        assert found["not_versions"] == self._foreign(), (found, self._log)

    def _check(self, flags: list[str], *, before: list[str], keep: int, published: bool) -> None:
        for name in FOREIGN:
            assert (self._out / name).read_text() == "somebody's", (name, self._log)
        changed = self._user.find_changed()
        assert not changed, (changed, self._log)
        after = self._whole()
        ever = sorted({*before, *after})
        assert set(ever[len(ever) - min(keep, len(ever)) :]) <= set(after), (ever, after, self._log)
        if not after:
            assert not before, self._log
            return
        latest = read_latest(self._out)
        # The first build of all may have been killed before it wrote LATEST.
        self._check_status(is_readable=latest is not None)
        if latest is None:
            assert not published, self._log
            assert not before, self._log
            return
        assert latest in after, self._log
        assert beam_tfrecords.verify(self._out / latest) == [], self._log
        if self._pinned is not None:
            assert latest == self._pinned, self._log
        if not published:
            return
        # What was built for tonight is the newest, whether or not LATEST is held elsewhere.
        newest = self._out / after[-1]
        assert self._pinned is not None or latest == after[-1], self._log
        assert set(self._versions()) - {self._damaged} <= set(after), self._log
        notes = json.loads((newest / "changes.json").read_text())["notes"]
        assert newest.name in before or self._damaged or not notes, (notes, self._log)
        names = manifest_of(newest)["class_names"]
        shutil.rmtree(self._scratch, ignore_errors=True)
        scratch = [word for word in flags if not word.startswith("--class_names")]
        ran = self._run(
            "convert", f"--output={self._scratch}", *scratch, *FLAGS, f"--class_names={','.join(names)}", "--quiet"
        )
        assert ran.code == 0, (ran.err, self._log)
        assert shards_of(newest) == shards_of(self._scratch), self._log
