"""`convert` from containers that cannot be read to their end: nothing is published, unless that is asked for."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.archive_files import tar_of
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.conftest import PHOTOS

FLAGS = ["--image_size=16", "--name=photos", "--splits=train=1"]
IMAGES = {path.relative_to(PHOTOS).as_posix(): path.read_bytes() for path in sorted(PHOTOS.glob("*/*_0[1-2].jpg"))}


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


@pytest.fixture
def archive(tmp_path) -> Path:
    path = tmp_path / "photos.tar"
    path.write_bytes(cut(tar_of(IMAGES)))
    return path


def is_published(out: Path) -> bool:
    return (out / "_SUCCESS").exists()


@pytest.mark.parametrize("flags", [[], ["--max_failures=1"], ["--limit=2"], ["--include=cat/*"], ["--dry_run"]])
def test_a_cut_archive_publishes_nothing_and_one_line_says_where_it_ends(archive, tmp_path, convert, flags):
    ran = convert(f"--input={archive}", f"--output={tmp_path / 'out'}", *FLAGS, *flags)
    assert ran.code == 3, ran.err
    (line,) = ran.err.splitlines()
    assert line.startswith("beam-tfrecords: nothing was published: a container was not read to its end, and an unknown")
    size = archive.stat().st_size
    samples = sum(tar_of(IMAGES).find(data) + len(data) <= size for data in IMAGES.values())
    assert f"{archive} (after {samples} samples: the archive ends at byte {size:,}, " in line
    assert "--allow_damaged_containers" in line
    assert not is_published(tmp_path / "out")


def test_a_damaged_archive_is_published_if_that_is_said_and_the_summary_and_the_manifest_say_so(
    archive, tmp_path, convert
):
    out, summary = tmp_path / "out", tmp_path / "summary.json"
    words = [f"--input={archive}", f"--output={out}", *FLAGS, "--max_failures=0.5"]
    assert convert(*words).code == 3
    ran = convert(*words, "--allow_damaged_containers", f"--json_summary={summary}")
    assert ran.code == 0, ran.err
    assert "note: a container was not read to its end, and an unknown number of samples is lost: " in ran.out
    manifest = manifest_of(out)
    assert manifest["damaged_containers"] == 1
    assert any("an unknown number of samples is lost" in note for note in manifest["notes"])
    (failure,) = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    assert (failure["key"], failure["reason"]) == ("photos.tar", "truncated")
    assert 0 < manifest["records"] == manifest["listed"] - 1
    assert (
        "note: a container was not read to its end"
        in convert(*words, "--allow_damaged_containers", "--dry_run", "--overwrite").out
    )


def test_the_first_damaged_containers_are_named_and_the_others_are_counted(tmp_path, convert):
    for number in range(5):
        (tmp_path / f"{number}.tar").write_bytes(cut(tar_of(IMAGES)))
    (tmp_path / "whole.tar").write_bytes(tar_of(IMAGES))
    ran = convert(
        f"--input={tmp_path}/*.tar", f"--output={tmp_path / 'out'}", f"--json_summary={tmp_path / 's.json'}", *FLAGS
    )
    assert ran.code == 3
    assert "5 containers were not read to their end" in ran.err
    assert [f"{number}.tar" in ran.err for number in range(5)] == [True, True, True, False, False]
    assert "; 2 more; get an intact copy" in ran.err
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["exit_code"], summary["status"]) == (3, "unpublished")
    assert summary["message"] in ran.err


def test_a_damaged_container_is_read_again_by_the_next_launch_and_the_next_version(archive, tmp_path, convert):
    words = [f"--input={archive}", f"--output={tmp_path / 'out'}", *FLAGS, "--max_failures=0.5", "--guard=off"]
    words += ["--versioned", "--allow_damaged_containers"]
    assert convert(*words).code == 0
    ran = convert(*words)
    assert (ran.code, "nothing has changed" in ran.out) == (0, True)
    assert convert(*words[:-1]).code == 3
    archive.write_bytes(tar_of(IMAGES))
    assert convert(*words[:-1]).code == 0
    (latest,) = [path for path in tmp_path.glob("out/2*") if manifest_of(path)["records"] == len(IMAGES)]
    assert manifest_of(latest)["damaged_containers"] == 0


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_every_missing_row_of_a_parquet_file_counts_as_a_failure(tmp_path, convert, compression):
    rows = [{"image": {"bytes": data}, "label": name.split("/")[0]} for name, data in IMAGES.items()]
    path = tmp_path / "photos.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, compression=compression, row_group_size=5, use_dictionary=False)
    data = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    data[start : start + 40] = bytes(40)
    path.write_bytes(data)
    out = tmp_path / "out"
    ran = convert(f"--input={path}", f"--output={out}", *FLAGS)
    assert (ran.code, is_published(out)) == (3, False)
    assert f"5 of {len(IMAGES)} samples failed" in ran.err
    assert convert(f"--input={path}", f"--output={out}", *FLAGS, "--max_failures=0.5").code == 0
    assert manifest_of(out)["records"] == len(IMAGES) - 5


@pytest.mark.parametrize(
    ("name", "damage", "code"),
    [
        ("table.csv", lambda text: text[: text.rindex(",")].encode(), 3),
        # So short a file is looked at from its beginning to its end before anything starts.
        ("table.csv.gz", lambda text: gzip.compress(text.encode())[:-9], 2),
    ],
)
def test_a_table_that_is_cut_publishes_nothing(tmp_path, convert, name: str, damage: Callable[[str], bytes], code: int):
    text = "file_name,label\n" + "".join(f"{PHOTOS / image},{image.split('/')[0]}\n" for image in IMAGES)
    (tmp_path / name).write_bytes(damage(text))
    ran = convert(f"--input={tmp_path / name}", f"--output={tmp_path / 'out'}", "--allow_outside_root", *FLAGS)
    assert ran.code == code
    assert name in ran.err
    assert not is_published(tmp_path / "out")
