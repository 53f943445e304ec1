"""Every source reads from buckets what it reads from a disk."""

from __future__ import annotations

import pytest

from beam_tfrecords import open_dataset
from tests.integration.buckets import SCHEMES, build, services, upload
from tests.source_forms import FORMS, flags_of, write_form


@pytest.fixture(scope="module", params=SCHEMES)
def bucket(request, tmp_path_factory):
    with services(tmp_path_factory.mktemp("services"), request.param):
        yield f"{request.param}://photos"


@pytest.mark.parametrize("form", FORMS)
def test_examples_are_those_of_a_disk(bucket, tmp_path, form):
    write_form(form, tmp_path / "in")
    upload(tmp_path / "in", f"{bucket}/{form}")
    examples = []
    for root in (tmp_path / "in", f"{bucket}/{form}"):
        out = tmp_path / f"out{len(examples)}"
        build(f"--output={out}", *flags_of(form, root), "--name=photos", "--num_shards=1")
        examples.append(list(open_dataset(out).records("train", form="bytes")))
    assert examples[0] == examples[1]
    assert len(examples[0]) > 3
