"""`verify --sample`: a share of the shards, always the same ones, and a line that says what was not checked."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import apache_beam as beam
import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords import verify as verify_dataset
from beam_tfrecords.beam_pipelines.commands.verify import _add_stages
from beam_tfrecords.transforms.verifying.checks import ShardCheck
from beam_tfrecords.transforms.verifying.choosing import ChosenShards, choose_shards
from tests.beam_pipelines.dataset_checks import manifest_of


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos, build) -> Path:
    flags = ["--image_size=16", "--num_shards=5", "--splits=train=0.75,test=0.25"]
    return build(tmp_path_factory.mktemp("sample") / "out", f"--input={photos}", *flags)


@pytest.fixture
def damaged(dataset, tmp_path) -> Path:
    """A dataset whose shards all have a wrong byte at their end, and a manifest that miscounts a class."""
    path = Path(shutil.copytree(dataset, tmp_path / "out"))
    for file in path.glob("*.tfrecord-*"):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    return path


@pytest.mark.parametrize(("share", "train", "test"), [("0.01", 1, 1), ("0.2", 1, 1), ("0.31", 2, 2), ("0.99", 5, 5)])
def test_a_share_of_each_split_is_checked(damaged, verify, share, train, test):
    ran = verify(damaged, f"--sample={share}")
    assert ran.code == 1
    found = {line.partition(",")[0] for line in ran.out.splitlines() if "tfrecord" in line}
    files = {line.partition(":")[0] for line in found}
    assert (sum("train" in file for file in files), sum("test" in file for file in files)) == (train, test)


def test_the_last_line_says_what_was_not_checked(dataset, verify):
    ran = verify(dataset, "--sample=0.1")
    lines = re.fullmatch(
        rf"OK: (\d+) records in 2 of 10 shards of {re.escape(str(dataset))} verified\n"
        r"not checked: (\d+) records in 8 shards\n",
        ran.out,
    )
    assert (ran.code, lines is not None) == (0, True), ran.out
    assert int(lines[1]) + int(lines[2]) == manifest_of(dataset)["records"]
    assert verify(dataset, "--sample=0.1").out == ran.out


def test_the_findings_of_a_sample_are_not_those_of_all(damaged, verify):
    ran = verify(damaged, "--sample=0.1", "--findings=0")
    assert re.search(r"^\d+ findings in \d+ records in 2 of 10 shards of ", ran.err)
    assert "not checked: " in ran.err


@pytest.mark.parametrize("word", ["1", "1.0", "0.81"])
def test_a_share_that_takes_all_shards_checks_all(dataset, verify, word):
    assert verify(dataset, f"--sample={word}").out == verify(dataset).out


def test_the_choice_is_that_of_the_manifest(dataset):
    opened = open_dataset(dataset)
    chosen = choose_shards(opened, 0.2)
    assert chosen.numbers == choose_shards(open_dataset(dataset), 0.2).numbers
    assert set(chosen.numbers) <= set(choose_shards(opened, 0.5).numbers)
    others = [choose_shards(DatasetOf(opened, f"{number:08x}"), 0.2).numbers for number in range(9)]
    assert len({tuple(one) for one in others}) > 5
    assert chosen.records == sum(opened.shards[number].records for number in chosen.numbers)


def test_the_description_of_a_job_has_only_numbers(dataset):
    """Services limit it to some megabytes."""
    many = ChosenShards(open_dataset(dataset).ref, list(range(300_000)), 10**9, True)
    pipeline = beam.Pipeline()
    _add_stages(
        pipeline,
        shards=many,
        check=ShardCheck.of(open_dataset(dataset)),
        folder="findings",
        processes=0,
    )
    assert pipeline.to_runner_api().ByteSize() < 2_500_000


class DatasetOf:
    """A dataset whose manifest has another digest."""

    def __init__(self, dataset, digest: str) -> None:
        self._dataset, self.manifest_sha256 = dataset, digest

    def __getattr__(self, name: str):
        return getattr(self._dataset, name)


@pytest.mark.parametrize("word", ["0", "1.5", "-1", "nan", "1%", "few"])
def test_a_share_is_more_than_0_and_up_to_1(dataset, verify, word):
    verify(dataset, f"--sample={word}").refused("invalid_command_line", says=["expected a share"])


def test_files_without_a_manifest_have_no_sample(dataset, verify):
    ran = verify(f"{dataset}/*.tfrecord-*", "--sample=0.1")
    ran.refused("setting_not_applicable", "sample", says=["without a manifest"])


def test_python_takes_a_sample_too(damaged):
    some, all_of_them = verify_dataset(damaged, sample=0.1), verify_dataset(damaged)
    assert 0 < len(some) < len(all_of_them)
    assert set(some) <= set(all_of_them)
    with pytest.raises(ValueError, match="expected a share"):
        verify_dataset(damaged, sample=0)


def test_other_files_are_checked_as_usual(dataset, tmp_path, verify):
    path = Path(shutil.copytree(dataset, tmp_path / "out"))
    shard = sorted(path.glob("*.tfrecord-*"))[0]
    shard.unlink()
    (path / "README.md").write_text("edited")
    ran = verify(path, "--sample=0.1")
    assert ran.code == 1
    assert f"{shard.name}: is missing" in ran.out
    assert "README.md: has been changed" in ran.out
