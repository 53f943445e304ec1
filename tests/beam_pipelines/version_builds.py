"""A folder of pictures that changes, and versions that are built of it."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.core.commands import Ran
from tests.pictures import picture

FLAGS = ["--name=pets", "--image_size=24", "--splits=train=0.8,test=0.2"]
CLASSES = ("cat", "dog", "owl")


def with_flags(*words: Any) -> list[str]:
    """Our usual flags, without those that the words replace, and the words."""
    given = [str(word) for word in words]
    names = {word.split("=")[0] for word in given}
    return [flag for flag in FLAGS if flag.split("=")[0] not in names] + given


# What a version says of its own build, and not of the dataset.
OF_THE_BUILD = {"changes.json", "report.html", "_SUCCESS"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A folder of class folders, and the folder of the versions that are built of it."""

    folder: Path
    output: Path
    convert: Callable[..., Ran]

    def build(self, *words: Any) -> Ran:
        return self.convert(f"--input={self.folder}", f"--output={self.output}", "--versioned", *with_flags(*words))

    def put(self, name: str, number: int) -> Path:
        """Writes a picture, which the number decides."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(f"scene 40x30 {number}"))
        return path

    @property
    def latest(self) -> Path:
        return self.output / (self.output / "LATEST").read_text().strip()

    @property
    def versions(self) -> list[str]:
        return sorted(path.name for path in self.output.glob("2*"))

    @property
    def changes(self) -> dict[str, Any]:
        return json.loads((self.latest / "changes.json").read_text())

    def counts(self) -> dict[str, int]:
        """Kind of change -> samples, without zeros."""
        changes = self.changes["changes"]
        return {kind: found["samples"] for kind, found in changes.items() if found["samples"]}


def make_source(root: Path, count: int, convert: Callable[..., Ran]) -> Source:
    """So many pictures, spread over the classes."""
    source = Source(root / "in", root / "out", convert)
    for number in range(count):
        source.put(f"{CLASSES[number % 3]}/{number:03d}.png", 10_000 + number)
    return source


def content_of(path: Path) -> dict[str, Any]:
    """All that a dataset holds, without what is said of its build."""
    files = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    manifest = json.loads(files.pop("manifest.json"))
    del manifest["reuse"]
    for facts in (manifest["files"], manifest["sizes"]):
        facts.pop("changes.json", None)
    return {**{name: data for name, data in files.items() if name not in OF_THE_BUILD}, "manifest": manifest}


def from_scratch(source: Source, output: Path, *words: Any) -> dict[str, Any]:
    """The content of a dataset that is built of the same folder with nothing before it."""
    shutil.rmtree(output, ignore_errors=True)
    ran = source.convert(f"--input={source.folder}", f"--output={output}", *with_flags(*words))
    assert ran.code == 0, ran.err
    return content_of(output)
