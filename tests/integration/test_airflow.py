"""A real Airflow parses the DAG and runs it once, with the local runner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from tests.integration.servers.processes import PROJECT, ServerError

pytestmark = pytest.mark.nightly

PHOTOS = PROJECT / "tests" / "data" / "photos"
AIRFLOW = PROJECT / ".venv-airflow" / "bin" / "airflow"
DAG = "beam_tfrecords_nightly"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Airflow's home, with an empty database."""
    if not AIRFLOW.exists():
        raise ServerError(f"{AIRFLOW} is missing; run tests/integration/install.sh")
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "nightly.yaml").write_text(f"input: {PHOTOS}\nimage_size: 64\n")
    ran = airflow(folder, "db", "migrate")
    assert ran.returncode == 0, ran.stderr
    return folder


def airflow(
    home: Path, *words: str, dags: Path = PROJECT / "deploy" / "schedule", python: Path | str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Runs a command of Airflow; the DAG's tasks run with the Python of these tests."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "BEAM_TFRECORDS_PYTHON": str(python),
        "BEAM_TFRECORDS_SPEC": str(home / "nightly.yaml"),
        "BEAM_TFRECORDS_OUTPUT": str(home / "out"),
    }
    return subprocess.run([AIRFLOW, *words], cwd=home, env=environment, capture_output=True, text=True, check=False)


def rows(ran: subprocess.CompletedProcess[str]) -> list[dict[str, str]]:
    """What a command prints as JSON, behind its warnings."""
    lines = [line for line in ran.stdout.splitlines() if line.startswith("[{")]
    return [row for line in lines for row in json.loads(line)]


def test_airflow_parses_the_dag(home):
    errors = airflow(home, "dags", "list-import-errors", "--output=json", "--local")
    assert not rows(errors), errors.stdout
    listed = airflow(home, "dags", "list", "--output=json", "--local")
    assert [row["dag_id"] for row in rows(listed)] == [DAG], listed.stdout


def test_a_run_ends_with_a_published_version(home):
    ran = airflow(home, "dags", "test", DAG)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    (success,) = (home / "out").glob("*/_SUCCESS")
    assert success.parent.name == (home / "out" / "LATEST").read_text().strip()
    assert open_dataset(home / "out").manifest["records"] == 42


def test_a_build_that_fails_fails_its_task(home):
    spec = home / "nightly.yaml"
    good = spec.read_text()
    spec.write_text(good.replace("input:", "inputs:"))
    try:
        # One attempt: a run of the DAG would wait for the next.
        ran = airflow(home, "tasks", "test", DAG, "build")
    finally:
        spec.write_text(good)
    assert "did you mean input?" in ran.stdout
    assert "Apache Beam process failed with return code 2" in ran.stdout


@pytest.mark.parametrize(("code", "is_final"), [(1, False), (2, True), (3, True), (4, False)])
def test_a_task_is_retried_if_another_attempt_may_succeed(home, tmp_path, code, is_final):
    program = tmp_path / "python"
    # Airflow first asks for the version of Beam.
    program.write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo 2.70.0 && exit\nexit {code}\n')
    program.chmod(0o755)
    ran = airflow(home, "tasks", "test", DAG, "build", python=program)
    assert f"Apache Beam process failed with return code {code}" in ran.stdout
    # Airflow retries no task that fails with this exception.
    assert ("AirflowFailException" in ran.stdout + ran.stderr) == is_final


def test_the_runner_and_its_flags_reach_the_program(home, tmp_path):
    """As the page says for a cluster; nothing listens at this address."""
    text = (PROJECT / "deploy" / "schedule" / f"{DAG}.py").read_text()
    text = text.replace('runner="DirectRunner"', 'runner="FlinkRunner"')
    text = text.replace('"spec": SPEC', '"spec": SPEC, "flink_master": "127.0.0.1:9"')
    (tmp_path / f"{DAG}.py").write_text(text)
    ran = airflow(home, "tasks", "test", DAG, "build", dags=tmp_path)
    assert "flink_master=127.0.0.1:9" in ran.stdout, ran.stdout[-2000:]
    assert "Apache Beam process failed with return code 2" in ran.stdout
