"""The scripts for gcloud, with a program in its place that notes what it is asked for: gcloud cannot be had here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "deploy" / "dataflow"
PARAMETERS = {one["name"] for one in json.loads((FOLDER / "metadata.json").read_text())["parameters"]}
NAMES = {
    "PROJECT": "project",
    "REGION": "europe-west4",
    "BUCKET": "gs://bucket/",
    "TAG": "abc",
    "LAUNCHER_DIGEST": "sha256:0",
}
IMAGE = "europe-west4-docker.pkg.dev/project/beam-tfrecords/beam-tfrecords:abc"
TEMPLATE = "gs://bucket/templates/beam-tfrecords-abc.json"
_RECORDER = """#!{python}
import json, sys
with open({calls!r}, "a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
sys.exit(1 if "describe" in sys.argv else 0)
"""


@pytest.fixture
def script(tmp_path):
    """Runs a script; returns how it ended, and the calls of gcloud."""
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text(_RECORDER.format(python=sys.executable, calls=str(calls)))
    program.chmod(0o755)

    def run(name: str, *words: str, **variables: str) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
        environment = {**NAMES, **variables, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        ran = subprocess.run([FOLDER / name, *words], env=environment, capture_output=True, text=True, check=False)
        return ran, [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []

    return run


def flags(call: list[str]) -> dict[str, str]:
    return dict(word.removeprefix("--").split("=", 1) for word in call if word.startswith("--"))


def test_build_makes_the_image_and_the_template(script):
    ran, (image, template) = script("build.sh")
    assert ran.returncode == 0, ran.stderr
    assert image[:3] == ["builds", "submit", "."]
    assert flags(image)["substitutions"] == f"_IMAGE={IMAGE},_LAUNCHER_DIGEST=sha256:0"
    assert template[:4] == ["dataflow", "flex-template", "build", TEMPLATE]
    assert flags(template)["image"] == IMAGE
    assert flags(template)["sdk-language"] == "PYTHON"
    for call, flag in ((image, "config"), (image, "ignore-file"), (template, "metadata-file")):
        assert (FOLDER.parents[1] / flags(call)[flag]).is_file()


def test_run_passes_every_flag_as_a_parameter(script):
    words = ["--input=gs://bucket/photos", "--splits=train=0.9,validation=0.1", "--overwrite=true"]
    ran, (call,) = script("run.sh", *words, JOB="photos", SERVICE_ACCOUNT="worker@project")
    assert ran.returncode == 0, ran.stderr
    assert call[:4] == ["dataflow", "flex-template", "run", "photos"]
    given = flags(call)
    assert given["template-file-gcs-location"] == TEMPLATE
    assert given["temp-location"] == "gs://bucket/temp"
    assert given["service-account-email"] == "worker@project"
    # gcloud takes what is between the carets for the separator.
    _, separator, rest = given["parameters"].split("^", 2)
    parameters = dict(pair.split("=", 1) for pair in rest.split(separator))
    assert set(parameters) <= PARAMETERS
    assert parameters["splits"] == "train=0.9,validation=0.1"
    assert parameters["overwrite"] == "true"
    assert parameters["sdk_container_image"] == IMAGE


@pytest.mark.parametrize("value", ["a;;b", "end;", ";;", "(?P<label>a,b)", "<0>", "<0><1>", "<0", "a|^b^c", "x <2>y"])
def test_a_value_may_contain_any_separator(script, value):
    ran, (call,) = script("run.sh", "--input=gs://bucket/photos", f"--label_pattern={value}", "--seed=1")
    assert ran.returncode == 0, ran.stderr
    _, separator, rest = flags(call)["parameters"].split("^", 2)
    parameters = dict(pair.split("=", 1) for pair in rest.split(separator))
    assert list(parameters) == [
        "sdk_container_image", "number_of_worker_harness_threads", "input", "label_pattern", "seed",
    ]  # fmt: skip
    assert parameters["label_pattern"] == value


def test_schedule_sends_the_same_request_every_night(script):
    words = ["--spec=gs://bucket/nightly.yaml", '--label_pattern=(?P<label>"a",b)', "--overwrite=true"]
    ran, (_, call) = script("schedule.sh", *words, SCHEDULER_ACCOUNT="scheduler@project")
    assert ran.returncode == 0, ran.stderr
    assert call[:5] == ["scheduler", "jobs", "create", "http", "beam-tfrecords-nightly"]
    given = flags(call)
    assert given["schedule"] == "0 2 * * *"
    assert given["uri"].endswith("/projects/project/locations/europe-west4/flexTemplates:launch")
    request = json.loads(given["message-body"])["launchParameter"]
    assert request["containerSpecGcsPath"] == TEMPLATE
    assert set(request["parameters"]) <= PARAMETERS
    assert request["parameters"]["label_pattern"] == '(?P<label>"a",b)'
    assert request["environment"]["maxWorkers"] == 20


ASKED = {
    "LABELS": "team=vision,cost_center=7",
    "SUBNETWORK": "regions/europe-west4/subnetworks/private",
    "PRIVATE": "true",
    "KMS_KEY": "projects/p/locations/l/keyRings/r/cryptoKeys/k",
    "SPOT": "true",
    "ADDITIONAL_OPTIONS": "disk_size_gb=50,resource_hints=min_ram=8GB",
}


def test_run_asks_for_the_machines_that_the_environment_names(script):
    _, (plain,) = script("run.sh", "--input=gs://bucket/photos")
    ran, (_, call) = script("run.sh", "--input=gs://bucket/photos", **ASKED)
    assert ran.returncode == 0, ran.stderr
    assert [word for word in call if word not in plain and not word.startswith("beam-tfrecords-")] == [
        "--additional-user-labels=team=vision,cost_center=7",
        "--subnetwork=regions/europe-west4/subnetworks/private",
        "--disable-public-ips",
        "--dataflow-kms-key=projects/p/locations/l/keyRings/r/cryptoKeys/k",
        "--flexrs-goal=COST_OPTIMIZED",
        "--additional-pipeline-options=disk_size_gb=50,resource_hints=min_ram=8GB",
    ]


def test_schedule_asks_for_the_machines_that_the_environment_names(script):
    ran, (_, call) = script("schedule.sh", "--output=gs://bucket/out", SCHEDULER_ACCOUNT="scheduler@project", **ASKED)
    assert ran.returncode == 0, ran.stderr
    environment = json.loads(flags(call)["message-body"])["launchParameter"]["environment"]
    assert environment == {
        "maxWorkers": 20,
        "machineType": "n2-standard-4",
        "stagingLocation": "gs://bucket/staging",
        "tempLocation": "gs://bucket/temp",
        "additionalUserLabels": {"team": "vision", "cost_center": "7"},
        "subnetwork": "regions/europe-west4/subnetworks/private",
        "ipConfiguration": "WORKER_IP_PRIVATE",
        "kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k",
        "flexrsGoal": "FLEXRS_COST_OPTIMIZED",
        "additionalPipelineOptions": ["disk_size_gb=50", "resource_hints=min_ram=8GB"],
    }


def test_a_switch_of_the_environment_that_is_neither_on_nor_off_is_refused(script):
    ran, calls = script("run.sh", "--input=gs://bucket/photos", PRIVATE="no")
    assert (ran.returncode, calls) == (2, [])
    assert "PRIVATE=no: expected true, or nothing" in ran.stderr


@pytest.mark.parametrize("name", ["run.sh", "schedule.sh"])
def test_a_switch_without_a_value_is_refused(script, name):
    ran, calls = script(name, "--overwrite", SCHEDULER_ACCOUNT="scheduler@project")
    assert ran.returncode != 0
    assert "--overwrite: expected --flag=value" in ran.stderr
    assert not [call for call in calls if "describe" not in call]


def test_a_missing_name_is_asked_for(script):
    ran, calls = script("run.sh", PROJECT="")
    assert ran.returncode != 0
    assert "set PROJECT" in ran.stderr
    assert not calls
