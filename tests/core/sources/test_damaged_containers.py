"""Whatever happens to the file of a container: each of its samples is listed, or the damage is noted or refused."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.tfrecord import RecordError, read_records
from beam_tfrecords.transforms.refs.ref_columns import one_by_one
from beam_tfrecords.transforms.sources.opening import open_input
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.registry import NAMES
from beam_tfrecords.transforms.sources.tally import Tally
from tests.core.opened_sources import OpenedSource
from tests.core.sources.test_mutated_files import damageable, request
from tests.writers import MEANING, WRITERS, Settings

SEED = 11
# Their pictures have more bytes than may follow the last member of a tar archive as zeros.
SAMPLES = [*MEANING.items, *(dataclasses.replace(one, name=one.name.replace("a", "b")) for one in MEANING.items)]
LARGE = dataclasses.replace(MEANING, items=SAMPLES, size=(80, 70))
# One file is one sample, or what is beside a sample; or a function gives them.
WITHOUT_CONTAINERS = {"image_folder", "filename_pattern", "paired_images", "yolo", "voc", "documents", "python"}
# tests/integration/test_scans.py damages these, where the extra is installed.
WITHOUT_CONTAINERS |= {"scans"}


def _never(_: bytes) -> bool:
    return False


def _are_rows(cut: bytes) -> bool:
    rows = list(csv.reader(io.StringIO(cut.decode(errors="replace"), newline="")))
    return len(rows) < 2 or (len(rows[-1]) == len(rows[0]) and cut.count(b'"') % 2 == 0)


def _are_objects(cut: bytes) -> bool:
    with contextlib.suppress(ValueError):
        json.loads(cut.rpartition(b"\n")[2] or b"{}")
        return True
    return False


def _are_records(cut: bytes) -> bool:
    with contextlib.suppress(RecordError):
        return bool([*read_records(io.BytesIO(cut))]) or not cut
    return False


# Text has nothing by which a changed byte can be told.
TEXTS = ("csv_table", "pixel_table", "metadata_folder", "jsonl_table", "coco")
# Writer -> whether a cut leaves a whole file.
FORMS: Mapping[str, Callable[[bytes], bool]] = {
    **{f"{form}_of_class_folders": _never for form in ("tar", "tar_gz", "tar_zst", "zip")},
    **dict.fromkeys(("webdataset", "parquet_images", "parquet_table", "gzip_table", "coco"), _never),
    **dict.fromkeys(("npy", "npz", "deflated_npz", "idx"), _never),
    **dict.fromkeys(("csv_table", "pixel_table", "metadata_folder"), _are_rows),
    "jsonl_table": _are_objects,
    "tfrecord": _are_records,
    "cifar": lambda cut: len(cut) % 3073 == 0,
}


def opened(name: str, settings: Settings) -> OpenedSource:
    spec, needs = request(WRITERS[name], settings)
    return OpenedSource(open_input(spec, needs).read(needs))


def count_listed(source: OpenedSource, staging: Path) -> tuple[int, Tally]:
    """How many samples are listed, rejected ones too, and what is not; the file may be another than was opened."""
    containers, tally = source.containers(), Tally()
    if containers is None:
        return sum(1 for _ in source.samples()), source.skipped
    (container,) = (Partition.of(storage.stat(one.uri), key_prefix=one.key_prefix) for one in containers)
    with StagingFiles(str(staging), "a") as files:
        samples = until_damage(source.read(container, tally, files), container, tally)
        return sum(1 for _ in one_by_one(samples)), tally


def damages(whole: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """Ways to damage a file."""
    noise = random.Random(SEED)
    size = len(whole)
    for at in [*sorted(noise.sample(range(size), min(size, 16))), size - 1]:
        if not FORMS[name](whole[:at]):
            yield f"cut at {at}", whole[:at]
        yield f"zeros from {at} on", whole[:at] + bytes(size - at)
        if name not in TEXTS:
            yield f"a flip at {at}", whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
            yield f"600 zeros at {at}", (whole[:at] + bytes(600) + whole[at + 600 :])[:size]
            yield f"512 zeros inserted at {at}", whole[:at] + bytes(512) + whole[at:]


def is_noticed(source: OpenedSource, staging: Path) -> bool:
    count, tally = count_listed(source, staging)
    return bool(tally.damaged) or count + tally.counts.total() >= len(SAMPLES)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FORMS)
def test_no_damage_takes_a_sample_away_unnoticed(tmp_path, name):
    settings, staging = WRITERS[name].make(tmp_path / "in", LARGE), tmp_path / "staging"
    path = Path(settings["input"])
    path = path if path.is_file() else max(damageable(tmp_path / "in"), key=lambda one: one.stat().st_size)
    whole = path.read_bytes()
    # Of several containers, only the first one is looked at before all are read.
    first = opened(name, settings)
    count, tally = count_listed(first, staging)
    assert (count, tally.counts, tally.damaged) == (len(SAMPLES), {}, [])
    unnoticed = []
    for what, data in damages(whole, name):
        path.write_bytes(data)
        if first.containers() is not None and not is_noticed(first, staging):
            unnoticed.append(f"{what}, when it is read")
        with contextlib.suppress(RequestError):
            source = opened(name, settings)
            source.check(1)
            if not is_noticed(source, staging):
                unnoticed.append(what)
    assert not unnoticed, f"seed {SEED}"


def test_every_source_is_damaged_or_has_no_containers(tmp_path):
    found = {opened(name, WRITERS[name].make(tmp_path / name, LARGE)).name for name in FORMS}
    assert found | WITHOUT_CONTAINERS == set(NAMES)
