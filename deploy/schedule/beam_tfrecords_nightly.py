"""Defines an Airflow DAG that runs a build every night; airflow.md lists what it needs."""

from __future__ import annotations

import datetime
import os

import pendulum
from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator
from airflow.sdk import DAG

# The workers' environment sets these paths; the defaults are examples.
PYTHON = os.environ.get("BEAM_TFRECORDS_PYTHON", "/opt/beam-tfrecords/bin/python")
SPEC = os.environ.get("BEAM_TFRECORDS_SPEC", "/etc/beam-tfrecords/nightly.yaml")
OUTPUT = os.environ.get("BEAM_TFRECORDS_OUTPUT", "gs://bucket/out/photos")

with DAG(
    "beam_tfrecords_nightly",
    description="Builds a new version of the dataset if the images have changed.",
    schedule="0 2 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
):
    BeamRunPythonPipelineOperator(
        task_id="build",
        # Runs python -m beam_tfrecords.beam_pipelines.convert; only this Python, not Airflow's, needs the package.
        py_interpreter=PYTHON,
        py_options=["-m"],
        py_file="beam_tfrecords.beam_pipelines.convert",
        runner="DirectRunner",
        pipeline_options={"spec": SPEC, "output": OUTPUT, "versioned": True, "keep_versions": 7},
        # The same command resumes an interrupted build from its finished blocks.
        retries=2,
        retry_delay=datetime.timedelta(minutes=5),
        execution_timeout=datetime.timedelta(hours=20),
    )
