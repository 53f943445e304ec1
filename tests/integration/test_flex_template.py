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

pytestmark = pytest.mark.nightly

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


def run_job(server: gcs.GcsServer, *, fails: bool = False, says: str = "BuildError: nothing was published") -> str:
    """Does what the service does with the job that the launcher has left; returns the file of its pipeline."""
    job = json.loads(server.client().bucket("staging").blob("launches/job_object").download_as_bytes())
    staged = job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"]
    ran = run(server, "-m", "tests.integration.run_staged_job", staged)
    assert (ran.returncode != 0) == fails, ran.stderr
    assert (says in ran.stderr) == fails
    return staged


def status(server: gcs.GcsServer, output: str = "gs://datasets/out") -> dict[str, Any]:
    ran = run(server, Path(sys.executable).with_name("beam-tfrecords"), "status", f"--output={output}", "--json")
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
    built = run(server, "-m", "beam_tfrecords", "convert", f"--input={PHOTOS}", f"--output={local}", *REQUEST[:-1])
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
    # Each job has removed the version before its own.
    assert [version["name"] for version in found["versions"]] == built[-1:]


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


# The launcher with a limit of five images that it lists itself.
SMALL = """\
import runpy
from beam_tfrecords.storage import name_ranges
from beam_tfrecords.transforms.sources.folders import image_folder

image_folder.MOST_LISTED_HERE, name_ranges._PAGE = 5, 3
runpy.run_path("deploy/dataflow/launch.py", run_name="__main__")
"""


def test_a_job_lists_a_large_bucket_itself(server):
    flags = ["--input=gs://photos", *REQUEST]
    made = []
    for program, output in ((["-c", SMALL], "listed"), ([FOLDER / "launch.py"], "here")):
        launched = run(server, *program, *flags, f"--output=gs://datasets/{output}", *ADDED)
        assert launched.returncode == 0, launched.stderr
        found = status(server, f"gs://datasets/{output}")
        assert bool(found["build"]["notes"]) == (output == "listed")
        run_job(server)
        blobs = [
            blob for blob in server.client().list_blobs("datasets", prefix=f"{output}/") if ".tfrecord-" in blob.name
        ]
        made.append({blob.name.partition("/")[2]: blob.download_as_bytes() for blob in blobs})
    assert len(made[0]) == 2
    assert made[0] == made[1]


def launch(server: gcs.GcsServer, *flags: str) -> subprocess.CompletedProcess[str]:
    return run(server, FOLDER / "launch.py", "--output=gs://datasets/out", *flags, *ADDED)


def put_tar(server: gcs.GcsServer, folder: Path, *names: str) -> str:
    """Uploads the sample photos in an archive, all or those of some classes; returns its name in the bucket."""
    with tarfile.open(folder / "photos.tar", "w") as archive:
        for path in sorted(PHOTOS.rglob("*.jpg")):
            if not names or path.parent.name in names:
                archive.add(path, path.relative_to(PHOTOS))
    server.client().bucket("photos").blob("photos.tar").upload_from_filename(folder / "photos.tar")
    return "gs://photos/photos.tar"


def test_a_job_lists_the_archives_of_a_template_itself(server, tmp_path):
    archive = put_tar(server, tmp_path)
    launched = launch(server, f"--input={archive}", *REQUEST)
    assert launched.returncode == 0, launched.stderr
    pending = status(server)
    assert (pending["state"], pending["build"]["notes"]) == (
        "submitted",
        ["the job lists the input before it converts"],
    )
    # Nobody knows whether the job runs, so no other build may start.
    assert launch(server, "--input=gs://photos", *REQUEST).returncode == 4
    run_job(server)
    assert status(server)["dataset"]["records"] == 42
    assert not [name for name in names(server, "datasets") if "/.build/" in name]
    local = tmp_path / "out"
    built = run(
        server,
        "-m",
        "beam_tfrecords",
        "convert",
        f"--input={tmp_path / 'photos.tar'}",
        f"--output={local}",
        *REQUEST[:-1],
    )
    assert built.returncode == 0, built.stderr
    bucket = server.client().bucket("datasets")
    for path in local.rglob("*.tfrecord-*"):
        assert bucket.blob(path.relative_to(tmp_path).as_posix()).download_as_bytes() == path.read_bytes()


def test_status_says_why_the_job_of_a_template_refused_its_input_and_the_next_one_may_start(server, tmp_path):
    archive = put_tar(server, tmp_path)
    flags = [f"--input={archive}", *REQUEST]
    assert launch(server, *flags, "--classes=cat,elephant").returncode == 0
    run_job(server, fails=True, says="elephant")
    found = status(server)
    assert (found["state"], found["build"]["exit_code"]) == ("refused", 2)
    assert "--classes" in found["build"]["why"][0]
    assert "elephant" in found["build"]["why"][0]
    assert launch(server, *flags).returncode == 0
    run_job(server)
    assert status(server)["state"] == "idle"
    assert status(server)["dataset"]["records"] == 42


def test_jobs_that_list_make_versions_and_an_unchanged_input_makes_none(server, tmp_path):
    archive = put_tar(server, tmp_path, "cat", "coffee")
    flags = [f"--input={archive}", "--versioned=true", "--accept=all", *REQUEST[:-1]]
    assert launch(server, *flags).returncode == 0
    run_job(server)
    assert "nothing has changed" in launch(server, *flags).stdout
    put_tar(server, tmp_path)
    assert launch(server, *flags).returncode == 0
    run_job(server)
    assert [version["records"] for version in status(server)["versions"]][-1] == 42
    assert len(status(server)["versions"]) == 2


def test_a_wrong_request_is_refused_before_a_job_is_staged(server):
    launched = run(
        server, FOLDER / "launch.py", "--input=gs://photos", "--output=gs://datasets/out", "--image_sizes=64", *ADDED
    )
    assert launched.returncode == 2
    assert "did you mean --image_size?" in launched.stderr
    assert not names(server, "staging")
