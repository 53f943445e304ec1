"""Every source reads from buckets what it reads from a disk."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from tests.cases.loading import read_area
from tests.integration.buckets import SCHEMES, build, content_of, services, upload
from tests.source_forms import FORMS, flags_of, write_form

pytestmark = pytest.mark.nightly

# Has the workers list folders of more than five images, and says in how many parts.
_IN_PARTS = """
import sys
from beam_tfrecords.beam_pipelines.build.listing import list_for_build
from beam_tfrecords.beam_pipelines.commands import cli
from beam_tfrecords.storage import name_ranges
from beam_tfrecords.transforms.sources.folders import image_folder

image_folder.MOST_LISTED_HERE, name_ranges._PAGE = 5, 3
index = list_for_build.list_by_workers

def counted(parts, *arguments):
    print(len(parts), "parts")
    index(parts, *arguments)

list_for_build.list_by_workers = counted
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module", params=SCHEMES)
def bucket(request, tmp_path_factory):
    with services(tmp_path_factory.mktemp("services"), request.param):
        yield f"{request.param}://photos"


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """Form -> the folder of its input, and the examples of it."""

    @functools.cache
    def read(form: str) -> tuple[Path, list[bytes]]:
        folder = tmp_path_factory.mktemp("disk")
        write_form(form, folder / "in")
        return folder / "in", convert(form, folder / "in", folder / "out")

    return read


def convert(form: str, root: object, out: Path) -> list[bytes]:
    build(f"--output={out}", *flags_of(form, root), "--name=photos", "--num_shards=1")
    return list(open_dataset(out).records("train", form="bytes"))


@pytest.mark.parametrize("form", FORMS)
def test_examples_are_those_of_a_disk(bucket, on_disk, tmp_path, form):
    folder, expected = on_disk(form)
    upload(folder, f"{bucket}/{form}")
    assert convert(form, f"{bucket}/{form}", tmp_path / "out") == expected
    assert len(expected) > 3


@pytest.mark.parametrize("below", ["", "/**/*.jpg"])
def test_a_folder_that_workers_list_gives_the_dataset_of_the_launcher(bucket, photos, tmp_path, below):
    upload(photos, f"{bucket}/large")
    (tmp_path / "notes.txt").touch()
    upload(tmp_path, f"{bucket}/large/cat")
    words = [f"--input={bucket}/large{below}", "--exclude=*_06.jpg", "--image_size=16", "--name=photos"]
    build(f"--output={tmp_path / 'here'}", *words)
    command = [sys.executable, "-c", _IN_PARTS, "convert", f"--output={tmp_path / 'there'}", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(ran.stdout.split(" parts")[0]) > 3
    here, there = content_of(str(tmp_path / "here")), content_of(str(tmp_path / "there"))
    assert here == there
    assert here["manifest.json"]["listed"] == 35


def test_trees_of_record_files_are_those_of_a_disk(bucket, tmp_path):
    for number, name in enumerate(("spark-tfrecord with partitionBy of a day", "spans of TFX")):
        root = tmp_path / f"in{number}"
        read_area("record_trees")[name].write(root)
        upload(root, f"{bucket}/records{number}")
        for place, out in ((root, "disk"), (f"{bucket}/records{number}", "bucket")):
            flags = ("--source=tfrecord", "--image_encoding=keep", "--name=photos", "--num_shards=1")
            build(f"--output={tmp_path / f'{out}{number}'}", f"--input={place}", *flags)
        here, there = (open_dataset(tmp_path / f"{out}{number}") for out in ("disk", "bucket"))
        assert here.splits == there.splits
        for split in here.splits:
            assert list(here.records(split, form="bytes")) == list(there.records(split, form="bytes"))
        verified = subprocess.run(
            [sys.executable, "-m", "beam_tfrecords", "verify", f"--dataset={bucket}/records{number}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert f"--input={bucket}/records{number} " in verified.stdout
