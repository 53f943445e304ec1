"""The Flex Template's program with a real store: it stages a job and returns, and the job alone makes the dataset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from google.cloud.dataflow_v1beta3 import types
from google.protobuf import json_format

from tests.integration.servers import gcs

ROOT = Path(__file__).parents[2]
PHOTOS = ROOT / "tests" / "data" / "photos"
FOLDER = ROOT / "deploy" / "dataflow"
IMAGE = "europe-docker.pkg.dev/project/repository/beam-tfrecords:tag"
REQUEST = ("--name=photos", "--image_size=64", "--splits=train=0.8,validation=0.2", "--overwrite=false")
# What the service adds to the parameters.
ADDED = (
    *("--runner=DataflowRunner", "--project=test", "--region=europe-west4", "--job_name=photos"),
    *("--staging_location=gs://staging/staging", "--temp_location=gs://staging/temp"),
    *("--template_location=gs://staging/launches/job_object", f"--sdk_container_image={IMAGE}"),
    "--number_of_worker_harness_threads=1",
)


@pytest.fixture
def server(tmp_path):
    """A storage service with the sample photos in gs://photos."""
    with gcs.gcs_server(tmp_path, buckets=("photos", "datasets", "staging")) as running:
        bucket = running.client().bucket("photos")
        for path in PHOTOS.rglob("*.jpg"):
            bucket.blob(path.relative_to(PHOTOS).as_posix()).upload_from_filename(path)
        yield running


def run(server: gcs.GcsServer, *command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **server.environment}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def names(server: gcs.GcsServer, bucket: str) -> list[str]:
    return sorted(blob.name for blob in server.client().list_blobs(bucket))


def run_job(server: gcs.GcsServer, *, fails: bool = False) -> str:
    """Does what the service does with the job that the launcher has left; returns the file of its pipeline."""
    job = json.loads(server.client().bucket("staging").blob("launches/job_object").download_as_bytes())
    staged = job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"]
    ran = run(server, "-m", "tests.integration.run_staged_job", staged)
    assert (ran.returncode != 0) == fails, ran.stderr
    assert ("BuildError: nothing was published" in ran.stderr) == fails
    return staged


def status(server: gcs.GcsServer) -> dict[str, Any]:
    ran = run(
        server, Path(sys.executable).with_name("beam-tfrecords"), "status", "--output=gs://datasets/out", "--json"
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_the_metadata_is_what_the_service_reads():
    metadata = json.loads((FOLDER / "metadata.json").read_text())
    message = types.TemplateMetadata.pb()()
    json_format.ParseDict(metadata, message)
    assert len(message.parameters) == len(metadata["parameters"])


def test_the_launcher_returns_and_its_job_publishes_the_dataset(server, tmp_path):
    flags = ["--input=gs://photos", "--output=gs://datasets/out", *REQUEST]
    launched = run(server, FOLDER / "launch.py", *flags, *ADDED)
    assert launched.returncode == 0, launched.stderr
    assert "_SUCCESS" not in names(server, "datasets")
    job = json.loads(server.client().bucket("staging").blob("launches/job_object").download_as_bytes())
    assert job["name"] == "photos"
    assert status(server)["state"] == "submitted"
    run_job(server)

    local = tmp_path / "out"
    built = run(
        server, "-m", "beam_tfrecords.beam_pipelines.convert", f"--input={PHOTOS}", f"--output={local}", *REQUEST[:-1]
    )
    assert built.returncode == 0, built.stderr
    bucket = server.client().bucket("datasets")
    shards = [path.relative_to(tmp_path).as_posix() for path in local.rglob("*.tfrecord-*")]
    assert len(shards) == 2
    for name in shards:
        assert bucket.blob(name).download_as_bytes() == (tmp_path / name).read_bytes()
    assert "out/_SUCCESS" in names(server, "datasets")
    # The workers have removed the temporary files.
    assert not [name for name in names(server, "datasets") if "/.build/" in name]
    assert status(server)["dataset"]["records"] == 42


@pytest.mark.parametrize("fails", [False, True])
def test_status_says_that_a_job_published_nothing(server, fails):
    bucket = server.client().bucket("photos")
    for number in range(3):
        bucket.blob(f"cat/broken_{number}.jpg").upload_from_string(b"no image")
    flags = ["--input=gs://photos", "--output=gs://datasets/out", *REQUEST]
    assert run(server, FOLDER / "launch.py", *flags, f"--fail_job={fails}".lower(), *ADDED).returncode == 0
    run_job(server, fails=fails)
    found = status(server)
    assert (found["state"], found["build"]["exit_code"], found["build"]["failed"]) == ("unpublished", 3, 3)
    assert "out/_SUCCESS" not in names(server, "datasets")


def test_jobs_of_versioned_builds_point_latest_at_theirs_and_old_versions_go(server):
    flags = ["--input=gs://photos", "--output=gs://datasets/out", "--versioned=true", "--keep_versions=1", "--grace=0s"]
    built = []
    for size in (64, 48, 32):
        launched = run(server, FOLDER / "launch.py", *flags, f"--image_size={size}", "--accept=settings,sizes", *ADDED)
        assert launched.returncode == 0, launched.stderr
        run_job(server)
        found = status(server)
        built.append(found["latest"])
        assert (found["versions"][-1]["name"], found["versions"][-1]["records"]) == (found["latest"], 42)
    # The second launcher kept the first version, the only one; the third removed it.
    assert [version["name"] for version in found["versions"]] == built[1:]


def test_a_build_that_has_nothing_to_do_leaves_a_job_that_does_nothing(server):
    flags = ["--input=gs://photos", "--output=gs://datasets/out", "--versioned=true", *REQUEST]
    jobs = set()
    for _ in range(2):
        launched = run(server, FOLDER / "launch.py", *flags, *ADDED)
        assert launched.returncode == 0, launched.stderr
        jobs.add(run_job(server))
    assert "nothing has changed" in launched.stdout
    assert len(jobs) == 2
    assert len(status(server)["versions"]) == 1


def test_archives_which_a_job_of_their_own_would_list_are_refused(server, tmp_path):
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        archive.add(PHOTOS, ".")
    server.client().bucket("photos").blob("photos.tar").upload_from_filename(tmp_path / "photos.tar")
    launched = run(
        server, FOLDER / "launch.py", "--input=gs://photos/photos.tar", "--output=gs://datasets/out", *REQUEST, *ADDED
    )
    assert launched.returncode == 2
    assert "archives are listed by a job of their own" in launched.stderr
    assert not names(server, "staging") + names(server, "datasets")


def test_a_wrong_request_is_refused_before_a_job_is_staged(server):
    launched = run(
        server, FOLDER / "launch.py", "--input=gs://photos", "--output=gs://datasets/out", "--image_sizes=64", *ADDED
    )
    assert launched.returncode == 2
    assert "did you mean --image_size?" in launched.stderr
    assert not names(server, "staging")
