"""Every source reads from buckets what it reads from a disk."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from tests.integration.buckets import SCHEMES, build, services, upload
from tests.source_forms import FORMS, flags_of, write_form


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
