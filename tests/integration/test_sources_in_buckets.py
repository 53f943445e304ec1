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
from tests.writers import WRITERS, flags_of

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
    """Form -> the folder of its input, its flags, and the examples of each split."""

    @functools.cache
    def read(form: str) -> tuple[Path, list[str], dict[str, list[bytes]]]:
        folder = tmp_path_factory.mktemp("disk")
        flags = flags_of(WRITERS[form].make(folder / "in"))
        return folder / "in", flags, convert(flags, folder / "out")

    return read


def convert(flags: list[str], out: Path) -> dict[str, list[bytes]]:
    build(f"--output={out}", *flags, "--name=photos", "--num_shards=1")
    dataset = open_dataset(out)
    return {split: list(dataset.records(split, form="bytes")) for split in dataset.splits}


# A function of the user opens its files itself.
@pytest.mark.parametrize("form", sorted(WRITERS.keys() - {"function"}))
def test_examples_are_those_of_a_disk(bucket, on_disk, tmp_path, form):
    folder, flags, expected = on_disk(form)
    upload(folder, f"{bucket}/{form}")
    there = [flag.replace(str(folder), f"{bucket}/{form}") for flag in flags]
    assert convert(there, tmp_path / "out") == expected


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
