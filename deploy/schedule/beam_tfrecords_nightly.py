"""Defines an Airflow DAG that runs a build every night; airflow.md lists what it needs."""

from __future__ import annotations

import datetime
import os
import re
from typing import Any

import pendulum
from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# The workers' environment sets these paths; the defaults are examples.
PYTHON = os.environ.get("BEAM_TFRECORDS_PYTHON", "/opt/beam-tfrecords/bin/python")
SPEC = os.environ.get("BEAM_TFRECORDS_SPEC", "/etc/beam-tfrecords/nightly.yaml")
OUTPUT = os.environ.get("BEAM_TFRECORDS_OUTPUT", "gs://bucket/out/photos")

# 2: the request is wrong; 3: a limit or a guard stopped it. Another attempt would end the same way.
FINAL_EXIT_CODES = (2, 3)


class BuildOperator(BeamRunPythonPipelineOperator):
    """Runs a build; fails the task without a retry after a final exit code."""

    def execute(self, context: Any) -> Any:
        try:
            return super().execute(context)
        except AirflowException as error:
            # Beam's operator has the exit code in its message only.
            code = re.search(r"return code (\d+)$", str(error))
            if code and int(code[1]) in FINAL_EXIT_CODES:
                raise AirflowFailException(str(error)) from error
            raise


with DAG(
    "beam_tfrecords_nightly",
    description="Builds a new version of the dataset if the images have changed.",
    schedule="0 2 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
):
    BuildOperator(
        task_id="build",
        # Runs python -m beam_tfrecords.beam_pipelines.convert; only this Python, not Airflow's, needs the package.
        py_interpreter=PYTHON,
        py_options=["-m"],
        py_file="beam_tfrecords.beam_pipelines.convert",
        runner="DirectRunner",
        pipeline_options={"spec": SPEC, "output": OUTPUT, "versioned": True, "keep_versions": 7},
        # The same command resumes an interrupted build from its finished blocks. The pauses double up to an hour, so
        # that another build that holds the output (4) has two hours to end.
        retries=5,
        retry_delay=datetime.timedelta(minutes=5),
        retry_exponential_backoff=2,
        max_retry_delay=datetime.timedelta(hours=1),
        execution_timeout=datetime.timedelta(hours=20),
    )
