"""Whatever happens to the file of a container: each of its samples is listed, or the damage is noted or refused."""

from __future__ import annotations

import bz2
import contextlib
import csv
import dataclasses
import functools
import gzip
import io
import itertools
import json
import lzma
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.refs.ref_columns import one_by_one
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.registry import NAMES
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally
from tests.archive_files import tar_of
from tests.core.opened_sources import open_source
from tests.framing import example_of, framed
from tests.pixel_files import save_cifar, save_idx

SEED = 11
COUNT = 12
NOISE = random.Random(SEED)
# More bytes than may follow the last member of a tar archive as zeros.
IMAGES = [b"\xff\xd8\xff\xe0" + NOISE.randbytes(16_000) for _ in range(COUNT)]
PIXELS = np.random.default_rng(SEED).integers(0, 256, (COUNT, 32, 32, 3), dtype=np.uint8)
LABELS = np.arange(COUNT) % 3
# One file is one sample, or what is beside a sample; or a function gives them.
WITHOUT_CONTAINERS = {"image_folder", "filename_pattern", "paired_images", "yolo", "voc", "documents", "python"}
# tests/integration/test_scans.py damages these, where the extra is installed.
WITHOUT_CONTAINERS |= {"scans"}


def photos() -> bytes:
    return tar_of({f"{'abc'[number % 3]}/{number}.jpg": image for number, image in enumerate(IMAGES)})


def write_webdataset(path: Path) -> None:
    pairs = [((f"{n}.jpg", image), (f"{n}.cls", b"%d" % (n % 3))) for n, image in enumerate(IMAGES)]
    path.write_bytes(tar_of(dict(member for pair in pairs for member in pair)))


def write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number, image in enumerate(IMAGES):
            archive.writestr(f"{'abc'[number % 3]}/{number}.jpg", image)


@functools.cache
def records() -> list[bytes]:
    return [framed(example_of({"image": image, "label": number % 3})) for number, image in enumerate(IMAGES)]


def write_shard(path: Path) -> None:
    path.write_bytes(b"".join(records()))
    info = {"name": "a", "splits": [{"name": "train", "shardLengths": [str(COUNT)]}]}
    (path.parent / "dataset_info.json").write_text(json.dumps(info))


def write_hf_parquet(path: Path, compression: str) -> None:
    rows = [{"image": {"bytes": image, "path": None}, "label": n % 3} for n, image in enumerate(IMAGES)]
    pq.write_table(pa.Table.from_pylist(rows), path, compression=compression, row_group_size=5)


def write_parquet(path: Path) -> None:
    rows = [{"label": f"{NOISE.random()}", "text": "x" * 100} for _ in range(COUNT)]
    pq.write_table(pa.Table.from_pylist(rows), path, use_dictionary=False, compression="zstd", row_group_size=5)


def csv_text() -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["label", "text"])
    writer.writerows([f"{number % 3}", f'{NOISE.random()} "a, b"'] for number in range(COUNT))
    return text.getvalue().encode()


def jsonl_text() -> bytes:
    return "".join(json.dumps({"label": n % 3, "text": f"{NOISE.random()}"}) + "\n" for n in range(COUNT)).encode()


def write_pixel_table(path: Path) -> None:
    with path.open("w", newline="") as file:
        texts = (" ".join(map(str, image[:8, :8, 0].ravel())) for image in PIXELS)
        csv.writer(file).writerows([("emotion", "pixels"), *zip(LABELS, texts, strict=True)])


def write_metadata(path: Path) -> None:
    for number, image in enumerate(IMAGES):
        (path.parent / f"{number}.jpg").write_bytes(image)
    path.write_text("file_name,label\n" + "".join(f"{number}.jpg,{number % 3}\n" for number in range(COUNT)))


def write_coco(path: Path) -> None:
    images, annotations = [], []
    for number, image in enumerate(IMAGES):
        (path.parent / f"{number}.jpg").write_bytes(image)
        images.append({"id": number, "file_name": f"{number}.jpg", "width": 9, "height": 9})
        annotations.append({"id": number, "image_id": number, "category_id": 1, "bbox": [1, 1, 3, 3]})
    path.write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cat"}]})
    )


def write_npy(path: Path) -> None:
    np.save(path, PIXELS)
    np.save(path.parent / "y.npy", LABELS)


def write_idx(path: Path) -> None:
    save_idx(path, PIXELS[..., 0])
    save_idx(path.parent / path.name.replace("images-idx3", "labels-idx1"), LABELS)


@dataclasses.dataclass(frozen=True)
class Form:
    """An input: its source, what writes its file, the fields of the request, and cuts that leave a whole file."""

    source: str
    write: Callable[[Path], Any]
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_whole: Callable[[bytes], bool] = lambda cut: False
    # Text has nothing by which a changed byte can be told.
    is_text: bool = False


COLUMNS: dict[str, Any] = {"needs_image": False, "columns": None}


def is_whole_csv(cut: bytes) -> bool:
    rows = list(csv.reader(io.StringIO(cut.decode(), newline="")))
    return len(rows) < 2 or (len(rows[-1]) == len(rows[0]) and cut.count(b'"') % 2 == 0)


def is_whole_jsonl(cut: bytes) -> bool:
    with contextlib.suppress(ValueError):
        json.loads(cut.rpartition(b"\n")[2] or b"{}")
        return True
    return False


def write(data: Callable[[], bytes]) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(data())


FORMS = {
    "a.tar": Form("tar", write(photos)),
    "a.tar.gz": Form("tar", write(lambda: gzip.compress(photos()))),
    "a.tar.bz2": Form("tar", write(lambda: bz2.compress(photos()))),
    "a.tar.xz": Form("tar", write(lambda: lzma.compress(photos()))),
    "a.tar.zst": Form("tar", write(lambda: zstandard.compress(photos()))),
    "w.tar": Form("webdataset", write_webdataset),
    "a.zip": Form("zip", write_zip),
    "a.tfrecord": Form("tfrecord", write(lambda: b"".join(records())), is_whole=lambda cut: cut in prefixes()),
    "a.tfrecord.gz": Form("tfrecord", write(lambda: gzip.compress(b"".join(records())))),
    "a-train.tfrecord-00000-of-00001": Form("tfrecord", write_shard),
    "plain.parquet": Form("hf_parquet", lambda path: write_hf_parquet(path, "none")),
    "snappy.parquet": Form("hf_parquet", lambda path: write_hf_parquet(path, "snappy")),
    "a.parquet": Form("parquet", write_parquet, COLUMNS),
    "a.csv": Form("csv", write(csv_text), COLUMNS, is_whole_csv, is_text=True),
    "a.csv.gz": Form("csv", write(lambda: gzip.compress(csv_text())), COLUMNS),
    "a.jsonl": Form("jsonl", write(jsonl_text), COLUMNS, is_whole_jsonl, is_text=True),
    "a.jsonl.gz": Form("jsonl", write(lambda: gzip.compress(jsonl_text())), COLUMNS),
    "pixels.csv": Form("pixel_table", write_pixel_table, {}, is_whole_csv, is_text=True),
    "metadata.csv": Form("hf_folder", write_metadata, {}, is_whole_csv, is_text=True),
    "instances.json": Form("coco", write_coco, is_text=True),
    "x.npy": Form("numpy", write_npy),
    "a.npz": Form("numpy", lambda path: np.savez(path, x=PIXELS, y=LABELS)),
    "b.npz": Form("numpy", lambda path: np.savez_compressed(path, x=PIXELS, y=LABELS)),
    "train-images-idx3-ubyte": Form("idx", write_idx),
    "train-images-idx3-ubyte.gz": Form("idx", write_idx),
    "data_batch_1.bin": Form(
        "cifar",
        lambda path: save_cifar(path, PIXELS, LABELS.tolist()),
        is_whole=lambda cut: len(cut) % 3073 == 0,
    ),
}


def prefixes() -> list[bytes]:
    return list(itertools.accumulate(records()))


def opened(path: Path, form: Form) -> Source:
    where = path.parent if form.source == "hf_folder" else path
    return open_source(where, source=form.source, **form.fields)


def count_listed(source: Source, path: Path) -> tuple[int, Tally]:
    """How many samples are listed, rejected ones too, and what is not; the file may be another than was opened."""
    containers, tally = source.containers(), Tally()
    if containers is None:
        return sum(1 for _ in source.samples()), source.skipped
    assert source.read is not None
    (container,) = (Partition.of(storage.stat(one.uri), key_prefix=one.key_prefix) for one in containers)
    with StagingFiles(str(path.parent / "staging"), "a") as staging:
        samples = until_damage(source.read(container, tally, staging), container, tally)
        return sum(1 for _ in one_by_one(samples)), tally


def damages(whole: bytes, form: Form) -> Iterator[tuple[str, bytes]]:
    """Ways to damage a file."""
    noise = random.Random(SEED)
    size = len(whole)
    for at in [*sorted(noise.sample(range(size), min(size, 16))), size - 1]:
        if not form.is_whole(whole[:at]):
            yield f"cut at {at}", whole[:at]
        yield f"zeros from {at} on", whole[:at] + bytes(size - at)
        if not form.is_text:
            yield f"a flip at {at}", whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
            yield f"600 zeros at {at}", (whole[:at] + bytes(600) + whole[at + 600 :])[:size]
            yield f"512 zeros inserted at {at}", whole[:at] + bytes(512) + whole[at:]


def is_noticed(source: Source, path: Path) -> bool:
    count, tally = count_listed(source, path)
    return bool(tally.damaged) or count + tally.counts.total() >= COUNT


@pytest.mark.nightly
@pytest.mark.parametrize("name", FORMS)
def test_no_damage_takes_a_sample_away_unnoticed(tmp_path, name):
    form, path = FORMS[name], tmp_path / name
    form.write(path)
    whole = path.read_bytes()
    # Of several containers, only the first one is looked at before all are read.
    first = opened(path, form)
    count, tally = count_listed(first, path)
    assert (count, tally.counts, tally.damaged) == (COUNT, {}, [])
    unnoticed = []
    for what, data in damages(whole, form):
        path.write_bytes(data)
        if first.containers() is not None and not is_noticed(first, path):
            unnoticed.append(f"{what}, when it is read")
        with contextlib.suppress(RequestError):
            source = opened(path, form)
            source.check(1)
            if not is_noticed(source, path):
                unnoticed.append(what)
    assert not unnoticed, f"seed {SEED}"


def test_every_source_is_damaged_or_has_no_containers():
    assert {form.source for form in FORMS.values()} | WITHOUT_CONTAINERS == set(NAMES)
