"""Builds whose own job lists the input: the dataset is the one of a launcher that waits for a job that lists."""

from __future__ import annotations

import pytest

from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord, PipelineJob
from beam_tfrecords.transforms.sources.folders import image_folder
from beam_tfrecords.transforms.sources.tables import table_source
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.source_forms import FORMS, flags_of, write_form

pytestmark = pytest.mark.local_runner


@pytest.fixture
def in_job(monkeypatch):
    """Has the job of a build list all inputs that workers can list; its launcher does not wait."""

    def switch():
        monkeypatch.setattr(image_folder, "MOST_LISTED_HERE", 5)
        monkeypatch.setattr(table_source, "_LEAST_BYTES", 0)
        runner = type(find_runner([]))
        monkeypatch.setattr(runner, "lists_in_job", True)
        # `submit` of this runner returns after the end of the job.
        record = JobRecord("DirectRunner", "1", "")
        monkeypatch.setattr(runner, "submit", lambda _, pipeline, remember: PipelineJob(record, pipeline.run()))

    return switch


@pytest.mark.nightly
@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_job_makes_the_same_dataset(form, tmp_path, convert, in_job):
    write_form(form, tmp_path / "in")
    flags = [*flags_of(form, tmp_path / "in"), "--name=same", "--max_failures=0.5"]
    assert convert(f"--output={tmp_path / 'there'}", *flags).code == 0
    in_job()
    ran = convert(f"--output={tmp_path / 'in_job'}", *flags)
    assert ran.code == 0, ran.err
    assert shards_of(tmp_path / "in_job") == shards_of(tmp_path / "there")
    manifests = [manifest_of(tmp_path / name) for name in ("in_job", "there")]
    for name in ("splits", "class_names", "input_fingerprint", "skipped", "notes", "read_with"):
        assert manifests[0].get(name) == manifests[1].get(name)


_FUNCTIONS = """
import io

import apache_beam as beam
from PIL import Image

from beam_tfrecords import Sample


def rows(part):
    for number in range(4):
        file = io.BytesIO()
        Image.new("RGB", (8, 8), (number * 30, 0, 0)).save(file, "PNG")
        yield Sample(f"{part}/{number}", image=file.getvalue(), label=part)


def read(root):
    return root | beam.Create(["cat", "dog"]) | beam.FlatMap(rows)


def grey(sample):
    return sample.replace(image=sample.image.mean(-1, keepdims=True).astype("uint8").repeat(3, -1))
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    "flags", [["--input=job_rows:rows", "--parts=cat,dog", "--map=job_rows:grey"], ["--input=job_rows:read"]]
)
def test_the_job_calls_functions_of_the_user(tmp_path, monkeypatch, convert, in_job, flags):
    (tmp_path / "job_rows.py").write_text(_FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    assert convert("--output=there", "--name=same", *flags).code == 0
    in_job()
    ran = convert("--output=in_job", "--name=same", *flags)
    assert ran.code == 0, ran.err
    assert shards_of(tmp_path / "in_job") == shards_of(tmp_path / "there")
