"""Pictures of failures in `report.html`: of what can be seen, wherever it is; nothing there hurts the report."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.beam_pipelines.report import failed_images
from tests.beam_pipelines.test_report import Page, page_of, thumbnail

pytestmark = pytest.mark.report
FLAGS = ("--max_failures=0.9", "--image_size=64", "--class_names=cat,flower", "--max_pixels=1000000")


@pytest.fixture(scope="module")
def folder(photos, tmp_path_factory) -> Path:
    """Photos of two classes; one of a third, one cut in half, a large one, and one that is none."""
    folder = tmp_path_factory.mktemp("failed") / "in"
    for name in ("cat", "flower"):
        shutil.copytree(photos / name, folder / name)
    (folder / "space").mkdir()
    shutil.copy(photos / "space/space_01.jpg", folder / "space/unknown.jpg")
    whole = (photos / "coffee/coffee_01.jpg").read_bytes()
    (folder / "cat/cut.jpg").write_bytes(whole[: len(whole) // 2])
    Image.open(photos / "rocket/rocket_01.jpg").resize((2000, 3000)).save(folder / "cat/large.jpg")
    (folder / "cat/none.jpg").write_bytes(b"none")
    return folder


def pack(folder: Path, form: str) -> Path:
    """The folder as it is, or in an archive beside it."""
    if form == "folder":
        return folder
    path = folder.with_suffix(f".{form}")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    with tarfile.open(path, "w") if form == "tar" else zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        add = archive.add if isinstance(archive, tarfile.TarFile) else archive.write
        for file in files:
            add(file, str(file.relative_to(folder)))
    return path


def failed_pictures(page: Page) -> dict[str, Image.Image]:
    """Key -> picture, of the section of failures."""
    return {key: thumbnail(image) for key, image in page.failed.items()}


def is_like(picture: Image.Image, path: Path, *, rows: float = 1.0) -> bool:
    """Whether a thumbnail shows a photo; its last rows may be missing."""
    photo = np.asarray(Image.open(path).convert("RGB").resize(picture.size), int)
    last = int(rows * picture.height)
    return float(np.abs(np.asarray(picture, int) - photo)[:last].mean()) < 12


@pytest.mark.parametrize("form", ["folder", "tar", "zip"])
def test_failures_are_shown_where_they_can_be_seen(form, folder, photos, tmp_path, build):
    page = page_of(build(tmp_path / "out", f"--input={pack(folder, form)}", *FLAGS))
    pictures = failed_pictures(page)
    assert pictures.keys() == {"space/unknown.jpg", "cat/cut.jpg", "cat/large.jpg"}
    assert max(max(picture.size) for picture in pictures.values()) == 128
    assert is_like(pictures["space/unknown.jpg"], photos / "space/space_01.jpg")
    assert is_like(pictures["cat/cut.jpg"], photos / "coffee/coffee_01.jpg", rows=0.3)
    assert is_like(pictures["cat/large.jpg"], folder / "cat/large.jpg")
    assert "cat/none.jpg" in page.words


def test_an_input_that_is_gone_leaves_the_text(folder, tmp_path, build, run):
    moved = shutil.copytree(folder, tmp_path / "in")
    out = build(tmp_path / "out", f"--input={moved}", *FLAGS)
    assert page_of(out).failed
    shutil.rmtree(moved)
    assert run("report", out, "--failed_images", f"--image_root={tmp_path}").code == 0
    page = page_of(out)
    assert not page.failed
    assert "space/unknown.jpg" in page.words
    shutil.copytree(folder, moved)
    assert run("report", out, "--failed_images", f"--image_root={tmp_path}").code == 0
    assert page_of(out).failed


def test_the_report_of_a_dataset_reads_the_files_that_it_names_only_if_it_is_told_to(folder, tmp_path, build, run):
    out = build(tmp_path / "out", f"--input={folder}", *FLAGS)
    shutil.copy(folder / "space/unknown.jpg", tmp_path / "private.jpg")
    (line,) = [line for line in (out / "failures.jsonl").read_text().splitlines() if "space/unknown.jpg" in line]
    planted = json.loads(line) | {"key": "planted", "uri": str(tmp_path / "private.jpg")}
    (out / "failures.jsonl").write_text(f"{json.dumps(planted)}\n")
    assert run("report", out).code == 0
    page = page_of(out)
    assert "planted" in page.words
    assert not page.failed
    assert run("report", out, "--failed_images").code == 0
    assert page_of(out).failed.keys() == {"planted"}


def test_what_a_table_may_not_name_is_not_shown(folder, tmp_path, build):
    (tmp_path / "in").mkdir()
    shutil.copy(folder / "space/unknown.jpg", tmp_path / "in/mine.jpg")
    (tmp_path / "in/table.csv").write_text(f"path,label\nmine.jpg,a\n{folder / 'cat/large.jpg'},b\n")
    words = ("--image_column=path", "--class_names=a,b", "--max_failures=0.9", "--image_size=16")
    page = page_of(build(tmp_path / "out", f"--input={tmp_path / 'in/table.csv'}", *words))
    assert "outside_root: 1" in page.words
    assert not page.failed


@pytest.mark.nightly
def test_a_file_that_never_ends_or_is_a_bomb_costs_a_bounded_time(folder, tmp_path, build, run, monkeypatch):
    monkeypatch.setattr(failed_images, "_SECONDS", 2.0)
    out = build(tmp_path / "out", f"--input={folder}", *FLAGS)
    os.mkfifo(tmp_path / "fifo")
    Image.new("1", (30_000, 30_000)).save(tmp_path / "bomb.png")
    lines = [json.loads(line) for line in (out / "failures.jsonl").read_text().splitlines()]
    for line, path in zip(lines, ("/dev/zero", tmp_path / "bomb.png", tmp_path / "fifo"), strict=False):
        line |= {"uri": str(path), "reason": "truncated"}
    (out / "failures.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    start = time.monotonic()
    assert run("report", out, "--failed_images").code == 0
    assert time.monotonic() - start < 300
    assert page_of(out).failed.keys() <= {line["key"] for line in lines[3:]}
