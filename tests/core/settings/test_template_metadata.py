"""The Flex Template: its parameters are the settings, and its program reads what the service passes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, read_build_spec

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "dataflow"
PARAMETERS = {one["name"]: one for one in json.loads((FOLDER / "metadata.json").read_text())["parameters"]}
NO_SETTINGS = {"spec", "fail_job", "sdk_container_image", "number_of_worker_harness_threads"}


@pytest.fixture(scope="module")
def launch():
    spec = importlib.util.spec_from_file_location("launch", FOLDER / "launch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_parameter_is_a_setting():
    assert {*PARAMETERS} - {*SETTINGS} == NO_SETTINGS
    for name, one in PARAMETERS.items():
        for option in one.get("enumOptions", ()):
            SETTINGS[name].read(option["value"])


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name in SETTINGS and SETTINGS[name].is_switch])
def test_switches_are_read_as_the_service_passes_them(name, launch):
    assert PARAMETERS[name]["paramType"] == "BOOLEAN"
    for word in ("true", "false"):
        given_words = parse_arguments(launch.read_switches([f"--{name}={word}"])).raw_values
        assert given_words.get(name, SETTINGS[name].default) is (word == "true")
    assert PARAMETERS[name]["defaultValue"] == str(SETTINGS[name].default).lower()


@pytest.mark.parametrize(("word", "fails"), [("true", True), ("false", False)])
def test_the_job_fails_if_the_service_passes_that_it_may(word, fails, launch):
    assert parse_arguments(launch.read_switches([f"--fail_job={word}"])).fail_job is fails


def test_what_the_service_passes_is_a_request(launch):
    passed = [
        *("--input=gs://bucket/photos", "--output=gs://bucket/out", "--image_size=256", "--upscale=false"),
        *("--splits=train=0.9,validation=0.1", "--overwrite=true", "--allow_truncated=false"),
        *("--runner=DataflowRunner", "--project=project", "--region=europe-west4", "--job_name=photos"),
        *("--staging_location=gs://bucket/staging", "--temp_location=gs://bucket/temp"),
        *("--template_location=gs://bucket/staging/job_object", "--sdk_container_image=registry/image:tag"),
        "--number_of_worker_harness_threads=1",
    ]
    arguments = parse_arguments(launch.read_switches(passed))
    spec = read_build_spec(arguments.raw_values)
    assert (spec.output, spec.overwrite, spec.upscale) == ("gs://bucket/out", True, False)
    assert spec.allow_truncated is False
    assert set(arguments.beam) == {word for word in passed if word in passed[7:]}
