"""Files that change between listing and reading: no sample gets what another file or another member holds."""

from __future__ import annotations

import io
import json
import logging
import os
import random
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.archive_files import tar_of
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of

FLAGS = ["--name=pets", "--image_size=16", "--num_shards=2"]


class Between(logging.Handler):
    """Does something once, when the log says that the input is listed and images will be read."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[Callable[[], None]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if self.changes and record.getMessage().startswith("converting "):
            self.changes.pop()()


@pytest.fixture
def between() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Has something done once, after the input is listed and before an image is read."""
    logger, handler = logging.getLogger("beam_tfrecords"), Between()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield handler.changes.append
    assert not handler.changes
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture(scope="module")
def images(picture) -> dict[str, bytes]:
    """Name -> image; all of the same size in bytes, so that archives of them have the same size."""
    from PIL import Image

    found = {}
    for number in range(40):
        content = io.BytesIO()
        Image.fromarray(picture(number, 20, 20)).save(content, "BMP")
        found[f"{('cat', 'dog')[number % 2]}/{number:02d}.bmp"] = content.getvalue()
    return found


def archive_of(images: dict[str, bytes], names: list[str], kind: str) -> bytes:
    if kind == "zip":
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for name in names:
                archive.writestr(name, images[name])
        return content.getvalue()
    return tar_of({name: images[name] for name in names})


def rename_over(path: Path, content: bytes) -> None:
    """As `rsync --times` does; the size may be the same, and the time is."""
    modified = path.stat().st_mtime_ns
    new = path.with_name("new")
    new.write_bytes(content)
    os.utime(new, ns=(modified, modified))
    new.rename(path)


def write_in_place(path: Path, content: bytes) -> None:
    time.sleep(0.02)  # beyond the tick of the clock of the file system
    path.write_bytes(content)


def failures_of(output: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (output / "failures.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("kind", "grows", "replace"),
    [
        ("tar", False, rename_over),
        ("tar", True, write_in_place),
        ("zip", False, write_in_place),
        ("zip", True, rename_over),
    ],
    ids=["tar-same size", "tar-grown", "zip-same size", "zip-grown"],
)
def test_no_record_holds_a_member_of_an_archive_that_was_replaced(
    images, tmp_path, between, convert, build, replace, grows, kind
):
    names = random.Random(7).sample(sorted(images), len(images))
    listed = archive_of(images, names[:30], kind)
    written = archive_of(images, names if grows else names[29::-1], kind)
    path = tmp_path / f"in.{kind}"
    path.write_bytes(listed)
    between(lambda: replace(path, written))
    flags = [f"--input={path}", f"--output={tmp_path / 'out'}", *FLAGS]
    ran = convert(*flags, "--max_failures=1")
    assert ran.code == 3, ran.err
    assert {failure["reason"] for failure in failures_of(tmp_path / "out")} == {"changed"}
    assert len(failures_of(tmp_path / "out")) == 30
    ran = convert(*flags)
    assert ran.code == 0, ran.err
    assert shards_of(tmp_path / "out") == shards_of(build(tmp_path / "expected", f"--input={path}", *FLAGS))


@pytest.mark.parametrize(
    ("source", "replace"), [("", rename_over), ("rows.csv", write_in_place)], ids=["folder", "table"]
)
def test_a_single_file_that_was_replaced_is_a_failure_and_tried_again(
    images, tmp_path, between, convert, build, replace, source
):
    root = tmp_path / "in"
    for name, content in images.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    rows = [f"{name},{name.split('/')[0]}" for name in images]
    (root / "rows.csv").write_text("\n".join(["image,label", *rows]))
    between(lambda: replace(root / "cat/04.bmp", images["dog/05.bmp"]))
    flags = [f"--input={root / source}", f"--output={tmp_path / 'out'}", *FLAGS]
    ran = convert(*flags, "--versioned", "--max_failures=0.1")
    assert ran.code == 0, ran.err
    latest = tmp_path / "out" / (tmp_path / "out/LATEST").read_text().strip()
    assert [(failure["key"], failure["reason"]) for failure in failures_of(latest)] == [("cat/04.bmp", "changed")]
    ran = convert(*flags, "--versioned")
    assert ran.code == 0, ran.err
    latest = tmp_path / "out" / (tmp_path / "out/LATEST").read_text().strip()
    assert manifest_of(latest)["failures"] == 0
    assert shards_of(latest) == shards_of(build(tmp_path / "expected", f"--input={root / source}", *FLAGS))
