"""Annotations beside the images of an archive are recognised by their contents, as those of a folder are."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from PIL import Image as Pixels

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.archives import zip_reader
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from tests.annotated_inputs import coco_of
from tests.beam_pipelines.listed_records import read
from tests.each import each
from tests.transforms.sources.documents.formats import FORMATS, IMAGES, LABELS

KINDS = {"tar": "tar", "tar.gz": "gztar", "zip": "zip"}
WRITERS: dict[str, Callable[[Path], Path]] = {**{name: one.write for name, one in FORMATS.items()}, **LABELS}
# Formats with a reader of their own: format -> name and content of a file.
READERS = {
    "COCO": ("list_7.json", json.dumps(coco_of())),
    "YOLO": ("set_7.yaml", "train: images\nnames: [cat, dog]\n"),
    "Pascal VOC": (
        "7.xml",
        "<annotation><object><name>cat</name><bndbox><xmin>1</xmin></bndbox></object></annotation>",
    ),
}
# Extensions of documents that only a program of annotations writes.
DOCUMENTS = {".json", ".yaml", ".xml", ".pts", ".gt"}


def pack(root: Path, extension: str) -> Path:
    """Packs a folder; returns the archive."""
    packed = Path(shutil.make_archive(str(root.parent / "packed"), KINDS[extension], root))
    return packed.rename(root.parent / f"set.{extension}")


def write_classes(root: Path) -> None:
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/1.jpg"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Pixels.new("RGB", (8, 8)).save(path)


@each("extension", KINDS)
@each("name", [*READERS, *sorted(WRITERS)])
def test_annotations_beside_class_folders_are_a_question(name, extension, tmp_path):
    root = tmp_path / "in"
    write_classes(root)
    documents = root / "meta"
    documents.mkdir()
    if name in READERS:
        file, content = READERS[name]
        (documents / file).write_text(content)
    else:
        WRITERS[name](documents)
    for image in documents.rglob("*.jpg"):
        image.unlink()
    if not DOCUMENTS & {path.suffix for path in documents.rglob("*")}:
        return
    argv = [f"--input={pack(root, extension)}", "--output=out"]
    with pytest.raises(RequestError) as refused:
        read(argv, tmp_path / "listing")
    assert refused.value.code == "unclear_folders"
    assert (f"annotations of {name}" if name in READERS else f"`mapping={name}`") in refused.value.message


@each("extension", KINDS)
@each("name", ["kitti", "labelme", "crowdhuman", "createml"])
def test_the_archive_is_to_be_extracted(name, extension, tmp_path):
    root = tmp_path / "in"
    (root / "photos").mkdir(parents=True)
    for photo, image in IMAGES.items():
        Pixels.new("RGB", (image.width, image.height)).save(root / "photos" / photo)
    WRITERS[name](root)
    argv = [f"--input={pack(root, extension)}", "--output=out"]
    with pytest.raises(RequestError, match="extract the archive, and use `input="):
        read(argv, tmp_path / "listing")


def test_a_checkpoint_has_the_formats_of_folders():
    summary = FolderSummary()
    summary.add_other("meta/a.json")
    summary.add_formats("meta/a.json", ["COCO"])
    packed = msgpack.unpackb(msgpack.packb(summary.pack()))
    assert FolderSummary.unpack(packed).folders["meta"].formats == {"COCO": "a.json"}


@each("extension", ["tar", "tar.gz"])
def test_a_document_that_is_a_link_does_not_end_the_listing(extension, tmp_path):
    root = tmp_path / "in"
    write_classes(root)
    (root / "a.json").write_text("{}")
    (root / "b.json").hardlink_to(root / "a.json")
    records, _ = read([f"--input={pack(root, extension)}", "--output=out"], tmp_path / "listing")
    assert records == {"train": {"cat": 2, "dog": 1}}


def test_a_document_is_read_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(zip_reader, "_MOST_BYTES", 50_000)
    for size in (10, 4096, 4097, 49_999, 50_000, 50_001, 200_000):
        data = random.Random(size).randbytes(size)
        for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            with zipfile.ZipFile(tmp_path / "a.zip", "w", kind) as archive:
                archive.writestr("a.json", data)
            container = Container.of(storage.stat(str(tmp_path / "a.zip")), key_prefix="")
            with zip_reader.open_zip(container) as opened:
                (member,) = opened.members()
                assert b"".join(member.chunks()) == data[:50_000]
