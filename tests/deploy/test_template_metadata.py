"""The Flex Template: its parameters are the settings, and its program reads what the service passes."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.beam_pipelines.settings.command_line import parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, read_build_spec
from beam_tfrecords.beam_pipelines.settings.template_metadata import template_metadata
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources import registry
from tests.each import each

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "dataflow"
PARAMETERS = {one["name"]: one for one in template_metadata()["parameters"]}
NO_SETTINGS = {"spec", "fail_job", "sdk_container_image", "number_of_worker_harness_threads"}
# Words that one reader or another takes.
WORDS = [
    *("0", "1", "-1", "+7", "100", "999999999999999999", "0.5", ".5", "1e-2", "1.", "150MB", "16 MiB", "1.5GB", "1h"),
    *("256", "224x160", "224 X 160", "keep", "4", "auto", "jpeg", "csv", "none", "train=0.9,test=0.1", "a b", "", "é"),
    *("gs://bucket/folder", "s3://bucket/folder", "gs://bucket/*.jpg"),
]
words = st.sampled_from(WORDS) | st.from_regex(r"[0-9]{1,4}[xX. ]?[0-9]{0,4}[A-Za-z]{0,3}", fullmatch=True)


@pytest.fixture(scope="module")
def launch():
    spec = importlib.util.spec_from_file_location("launch", FOLDER / "launch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_file_is_the_generated_one():
    command = [sys.executable, "-m", "beam_tfrecords.beam_pipelines.settings.template_metadata"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (FOLDER / "metadata.json").read_text() == ran.stdout, "say: make deploy-files"
    assert json.loads(ran.stdout) == template_metadata()


def test_every_setting_is_a_parameter_in_the_group_of_its_help():
    # The input of a template is a location, so it has no settings of functions.
    assert set(PARAMETERS) == {*SETTINGS, *NO_SETTINGS} - {"parts"}
    for name, one in SETTINGS.items():
        if name in PARAMETERS:
            assert PARAMETERS[name]["groupName"] == one.group.capitalize()
        if name in PARAMETERS and name not in ("input", "source"):
            assert PARAMETERS[name]["helpText"].lower().startswith(one.help.replace("`", "").lower())


def test_the_form_offers_all_sources_except_functions():
    offered = {option["value"] for option in PARAMETERS["source"]["enumOptions"]}
    assert offered == {"auto", *(source.name for source in registry.SOURCES)} - {registry.FUNCTIONS}


@each("name", [name for name in PARAMETERS if "enumOptions" in PARAMETERS[name]])
def test_every_choice_of_a_parameter_is_a_value_of_its_setting(name):
    choices = [option["value"] for option in PARAMETERS[name]["enumOptions"]]
    for choice in choices:
        SETTINGS[name].read(choice)
    assert PARAMETERS[name].get("defaultValue", choices[0]) in choices


def test_enumerations_are_choices():
    assert [option["value"] for option in PARAMETERS["duplicates"]["enumOptions"]] == ["keep", "drop", "fail"]
    assert [option["value"] for option in PARAMETERS["compression"]["enumOptions"]] == ["none", "gzip"]
    assert PARAMETERS["resize_mode"]["defaultValue"] == "shorter"
    # It depends on the layout.
    assert "defaultValue" not in PARAMETERS["image_encoding"]


@pytest.mark.parametrize("name", [name for name in SETTINGS if "regexes" in PARAMETERS.get(name, ())])
@given(word=words)
def test_the_pattern_of_a_parameter_takes_what_its_setting_takes(name, word):
    try:
        SETTINGS[name].read(word)
    except (ValueError, RequestError):
        return
    # On Dataflow, places are buckets.
    if name not in ("input", "output", "image_root", "mask_root", "reuse"):
        assert all(re.fullmatch(pattern, word) for pattern in PARAMETERS[name]["regexes"])


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("image_size", "big"),
        ("shard_size", "large"),
        ("seed", "0.5"),
        ("input", "photos/"),
        ("output", "gs://bucket"),
        ("max_failures", "few"),
        ("channels", "some"),
        ("reuse", "out/photos"),
        ("mask_root", "masks/"),
        ("image_root", "train=photos/"),
    ],
)
def test_the_service_refuses_a_wrong_value(name, word):
    assert not any(re.fullmatch(pattern, word) for pattern in PARAMETERS[name]["regexes"])


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("input", "train=gs://bucket/photos"),
        ("mask_root", "train=gs://bucket/masks"),
        ("reuse", "none"),
        ("reuse", "gs://bucket/out"),
        ("channels", "13"),
    ],
)
def test_the_service_passes_a_right_value(name, word):
    assert all(re.fullmatch(pattern, word) for pattern in PARAMETERS[name]["regexes"])
    SETTINGS[name].read(word)


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.is_switch])
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
    assert (spec.output, spec.overwrite, spec.image.upscale) == ("gs://bucket/out", True, False)
    assert spec.image.allow_truncated is False
    assert set(arguments.beam) == {word for word in passed if word in passed[7:]}
