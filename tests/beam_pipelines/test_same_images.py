"""The same photos give the same records, whatever holds them."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import zstandard

PHOTOS = Path(__file__).parents[1] / "data/photos"
NAMES = sorted(path.relative_to(PHOTOS).as_posix() for path in PHOTOS.glob("*/*_0[1-3].jpg"))
FLAGS = ["--name=photos", "--image_encoding=keep", "--num_shards=1"]


def tar_of(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


def as_folder(path: Path) -> Path:
    for name in NAMES:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PHOTOS / name, path / name)
    return path


def as_tar(path: Path) -> Path:
    path = path.with_suffix(".tar")
    path.write_bytes(tar_of({name: (PHOTOS / name).read_bytes() for name in NAMES}))
    return path


def as_zstd(path: Path) -> Path:
    plain = as_tar(path)
    path = path.with_suffix(".tar.zst")
    path.write_bytes(zstandard.compress(plain.read_bytes()))
    return path


def as_zip(path: Path) -> Path:
    return Path(shutil.make_archive(str(path), "zip", as_folder(path)))


def as_webdataset(path: Path) -> Path:
    members = {}
    for name in NAMES:
        stem = name.removesuffix(".jpg")
        members[name] = (PHOTOS / name).read_bytes()
        members[f"{stem}.json"] = json.dumps({"label": name.split("/")[0]}).encode()
        members[f"{stem}.index"] = b"7"
    path = path.with_suffix(".tar")
    path.write_bytes(tar_of(members))
    return path


def as_parquet(path: Path, **options: str) -> Path:
    labels = [name.split("/")[0] for name in NAMES]
    images = [{"bytes": (PHOTOS / name).read_bytes(), "path": name} for name in NAMES]
    path = path.with_suffix(".parquet")
    pq.write_table(pa.table({"image": images, "label": labels}), path, **options)
    return path


def as_plain_parquet(path: Path) -> Path:
    return as_parquet(path, compression="none")


def as_tfrecord(path: Path) -> Path:
    path = path.with_suffix(".tfrecord")
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name in NAMES:
            example = tf.train.Example()
            feature = example.features.feature
            feature["image"].bytes_list.value.append((PHOTOS / name).read_bytes())
            feature["label"].bytes_list.value.append(name.split("/")[0].encode())
            writer.write(example.SerializeToString())
    return path


FORMS = [as_folder, as_tar, as_zstd, as_zip, as_webdataset, as_parquet, as_plain_parquet, as_tfrecord]


@pytest.mark.parametrize("make", FORMS, ids=lambda make: make.__name__)
def test_the_same_photos_give_the_same_images_and_labels(tmp_path, build, read, make: Callable[[Path], Path]):
    records = read(build(tmp_path / "out", f"--input={make(tmp_path / 'photos')}", *FLAGS), "train")
    classes = (tmp_path / "out/label.labels.txt").read_text().split()
    found = {(classes[record["label"]], record["image"]) for record in records}
    assert found == {(name.split("/")[0], (PHOTOS / name).read_bytes()) for name in NAMES}
    assert len(records) == len(NAMES)
