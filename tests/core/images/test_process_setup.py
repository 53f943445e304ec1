"""What is set for a whole process does not change results."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from tests.image_checks import PHOTOS

PROGRAM = """
import hashlib, logging, sys, warnings
from pathlib import Path
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.processes.worker import prepare_process
if sys.argv[1] == "prepared":
    prepare_process()
    warnings.warn_explicit("odd tag", UserWarning, "TiffImagePlugin.py", 1, module="PIL.TiffImagePlugin")
    logging.getLogger("PIL.TiffImagePlugin").error("More samples per pixel than can be decoded")
digest = hashlib.sha256()
for photo in sys.argv[2:]:
    digest.update(convert_image(Path(photo).read_bytes(), ImageSpec(image_size=(256, 256))).data)
print(digest.hexdigest())
"""


def run(setup: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", PROGRAM, setup, *map(str, PHOTOS[:6])]
    return subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def prepared() -> subprocess.CompletedProcess:
    return run("prepared")


@pytest.mark.nightly
def test_a_prepared_process_converts_to_the_same_bytes(prepared: subprocess.CompletedProcess) -> None:
    assert prepared.stdout == run("plain").stdout
    assert len(prepared.stdout.strip()) == hashlib.sha256().digest_size * 2


def test_a_prepared_process_prints_nothing_of_pillow(prepared: subprocess.CompletedProcess) -> None:
    assert prepared.stderr == ""
