"""MapInProcesses where the runner's workers are threads of the launcher: what dies must not take the launcher along."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_tfrecords.transforms.processes.stage import MapInProcesses

IN_MEMORY = ["--direct_running_mode=in_memory"]
THREADS = ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]
PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=1"]
PRISM = Path(__file__).parents[3] / ".cache/bin/prism"
MAIN = "import sys; from beam_tfrecords.beam_pipelines.commands.cli import main; sys.exit(main(sys.argv[1:]))"


def pid(_: int) -> int:
    return os.getpid()


def die_once(path: str) -> str:
    with open(path, "a") as file:
        file.write("x")
        size = file.tell()
    if size == 1:
        os.abort()
    return "second attempt"


@pytest.mark.parametrize("arguments", [IN_MEMORY, THREADS], ids=lambda arguments: arguments[0])
def test_a_function_runs_beside_the_process_that_built_the_pipeline(arguments):
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(arguments)) as pipeline:
        pids = pipeline | beam.Create(range(5)) | MapInProcesses(pid, processes=0)
        assert_that(pids | beam.Map(lambda pid: pid == os.getpid()) | beam.Distinct(), equal_to([False]))


@pytest.mark.nightly
def test_a_function_runs_in_the_runners_own_process_if_it_has_one():
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(PROCESSES)) as pipeline:
        pids = pipeline | beam.Create(range(5)) | MapInProcesses(pid, processes=0)
        assert_that(pids | beam.Map(lambda pid: pid == os.getpid()) | beam.Distinct(), equal_to([True]))


def test_a_process_that_dies_costs_its_element_a_second_attempt(tmp_path):
    with beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(IN_MEMORY)) as pipeline:
        elements = pipeline | beam.Create([str(tmp_path / "calls")])
        assert_that(elements | MapInProcesses(die_once, processes=0), equal_to(["second attempt"]))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "arguments",
    [
        IN_MEMORY,
        THREADS,
        pytest.param(
            ["--runner=PrismRunner", f"--prism_location={PRISM}"],
            marks=pytest.mark.skipif(
                not PRISM.exists(), reason=f"{PRISM} is missing; run tests/integration/install.sh"
            ),
        ),
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_image_that_takes_too_long_costs_itself_and_not_the_build(arguments, photos: Path, tmp_path: Path):
    shutil.copytree(photos, tmp_path / "photos")
    # Pillow reads plain text number by number, in Python.
    (tmp_path / "photos/cat/slow.ppm").write_bytes(b"P3 2500 2500 255\n" + b"1 2 3 " * 6_250_000)
    flags = [f"--output={tmp_path / 'out'}", "--image_size=32", "--image_timeout=2", "--max_failures=0.5"]
    command = [sys.executable, "-c", MAIN, "convert", f"--input={tmp_path / 'photos'}", *flags, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    failures = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").read_text().splitlines()]
    assert [(failure["key"], failure["reason"]) for failure in failures] == [("cat/slow.ppm", "decode_timeout")]
