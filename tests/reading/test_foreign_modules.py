"""A project with a `transforms.py` of its own, one of the commonest file names in vision code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.commands import Ran

# As a script does: its own folder comes first.
OWN = "import sys; sys.path.insert(0, sys.argv[1]); import transforms; assert transforms.MINE\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "transforms.py").write_text("MINE = True\n")
    return folder


@pytest.fixture(scope="module")
def dataset(photos, tmp_path_factory, build) -> Path:
    return build(tmp_path_factory.mktemp("dataset") / "out", f"--input={photos}", "--image_size=8")


def run_beside(project: Path, code: str, *words: object) -> Ran:
    command = [sys.executable, "-c", OWN + code, str(project), *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.nightly
def test_a_dataset_is_read_beside_it(project, dataset):
    code = """
import beam_tfrecords
from beam_tfrecords import BuildError, RequestError, open_dataset
examples = beam_tfrecords.load(sys.argv[2], "train", batch_size=None)
print(len(list(examples)), open_dataset(sys.argv[2]).manifest["records"])
"""
    ran = run_beside(project, code, dataset)
    assert (ran.code, ran.out) == (0, "42 42\n"), ran.err


@pytest.mark.nightly
def test_a_dataset_is_built_beside_it(project, photos, tmp_path):
    code = """
from beam_tfrecords import WriteTFRecordShards, build
if __name__ == "__main__":
    print(WriteTFRecordShards.__name__, build(input=sys.argv[2], output=sys.argv[3], image_size=8).manifest["records"])
"""
    ran = run_beside(project, code, photos, tmp_path / "out")
    assert (ran.code, ran.out) == (0, "WriteTFRecordShards 42\n"), ran.err
