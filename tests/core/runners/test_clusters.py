"""What is asked of a cluster and told to Beam. `tests/integration` has the tests that need one."""

from __future__ import annotations

import re
import traceback
import zipfile

import pytest

from beam_tfrecords.beam_pipelines.runners import flink_runner
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord, describe_trace, read_job
from beam_tfrecords.beam_pipelines.runners.portable_runner import write_small_jar
from beam_tfrecords.storage.entries import (
    AccessDeniedError,
    MissingBucketError,
    ServiceFaultError,
)
from tests.refusals import refuses

PYTHON_ERROR = """\
org.apache.flink.runtime.JobException: Recovery is suppressed by NoRestartBackoffTimeStrategy
\tat org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler.handleFailure(Handler.java:176)
Caused by: java.lang.Exception: The user defined 'open()' method caused an exception: java.lang.RuntimeException: \
Error received from SDK harness for instruction 3: Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/apache_beam/runners/worker/sdk_worker.py", line 313, in _execute
    response = task()
{error} [while running 'ConvertBlocks/ReadConvertWrite/Apply/ParDo(_Call)']

\tat org.apache.flink.runtime.operators.BatchTask.run(BatchTask.java:524)
"""
JAVA_ERROR = """\
org.apache.flink.runtime.JobException: Recovery is suppressed by NoRestartBackoffTimeStrategy
\tat org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler.handleFailure(Handler.java:176)
Caused by: java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
"""
SPARK_ERROR = """\
Pipeline BeamApp failed in state FAILED: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1
\tat org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:623)
Caused by: io.grpc.StatusRuntimeException: CANCELLED: client cancelled
\tat io.grpc.Status.asRuntimeException(Status.java:524)
\t... 3 more

Driver stacktrace:
"""


@pytest.mark.parametrize(
    ("stacktrace", "line"),
    [
        (PYTHON_ERROR.format(error="beam_tfrecords.errors.BuildError: the disk is full"), "the disk is full"),
        (
            PYTHON_ERROR.format(error="ZeroDivisionError: division by zero"),
            "division by zero (Flink's page shows more)",
        ),
        (JAVA_ERROR, "No space left on device (Flink's page shows more)"),
        (SPARK_ERROR, "CANCELLED: client cancelled (Flink's page shows more)"),
        ("job 1 failed", "job 1 failed (Flink's page shows more)"),
        ("", "no reason is given (Flink's page shows more)"),
    ],
    ids=["an error of the build", "a bug in a worker", "an error of Flink", "an error of Spark", "no trace", "nothing"],
)
def test_a_failed_job_is_described_in_one_line(stacktrace, line):
    assert describe_trace(stacktrace, more="Flink's page shows more") == line


@pytest.mark.parametrize(
    "error",
    [
        ServiceFaultError("s3://photos/a: archived"),
        AccessDeniedError("s3://photos/a", "AccessDenied"),
        MissingBucketError("s3://photos/a: there is no bucket"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_store_or_a_dataset_is_described_by_its_message_alone(error):
    (line,) = traceback.format_exception_only(error)
    found = describe_trace(PYTHON_ERROR.format(error=line.rstrip()), more="Flink's page shows more")
    assert found == str(error)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--runner=FlinkRunner", "--flink_master=[auto]"],
        ["--runner=FlinkRunner", "--flink_master=[local]"],
        ["--runner=FlinkRunner", "--flink_master=host:8081", "--job_endpoint=localhost:8099"],
    ],
)
def test_nothing_is_filled_in_where_no_cluster_is_named(arguments):
    runner = find_runner(arguments)
    assert (runner.complete(), runner.note) == (arguments, "")


def test_prism_is_started_for_each_pipeline_where_it_is_said_to_be():
    arguments = ["--runner=PrismRunner", "--prism_location=prism"]
    quiet = "--prism_log_kind=text"
    assert find_runner(arguments).complete() == [*arguments, quiet, "--experiments=disable_prism_server_singleton"]


def test_without_java_spark_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with refuses("missing_program", "runner", says=["runner=SparkRunner"]):
        find_runner(["--runner=SparkRunner"]).complete()


def test_what_the_user_sets_stays(tmp_path, monkeypatch):
    (tmp_path / "java").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["--runner=SparkRunner", "--environment_type=DOCKER", "--sdk_worker_parallelism=1"]
    runner = find_runner([*words, "--spark_master_url=local[2]", "--spark_job_server_jar=x.jar"])
    completed = runner.complete()
    assert not [word for word in completed[3:] if word.split("=")[0] in {one.split("=")[0] for one in words}]
    assert runner.note == "Spark at local[2]; set: nothing"


@pytest.mark.parametrize("runner", ["DataflowRunner", "SparkRunner"])
def test_a_job_is_named_after_its_dataset(runner, tmp_path, monkeypatch):
    (tmp_path / "java").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = [f"--runner={runner}", "--spark_job_server_jar=x.jar"]
    for given, name in ([], r"beam-tfrecords-red-cats-[0-9a-f]{12}"), (["--job_name=mine"], "mine"):
        named = find_runner([*words, *given])
        named.dataset = "red_cats"
        (found,) = [word for word in named.complete() if word.startswith("--job_name=")]
        assert re.fullmatch(f"--job_name={name}", found)


def test_a_job_on_dataflow_has_the_labels_of_the_user_and_its_dataset():
    runner = find_runner(["--runner=DataflowRunner", "--labels=team=vision"])
    runner.dataset = "cats"
    labels = [word for word in runner.complete() if word.startswith("--labels=")]
    assert labels == ["--labels=team=vision", "--labels=beam-tfrecords-dataset=cats"]


class Cluster:
    """A cluster of 6 slots, 4 of them free."""

    version, minor_version, is_here = "1.19.3", "1.19", True
    slots, free_slots, slots_per_manager = 6, 4, 3


@pytest.mark.parametrize(
    ("words", "parallelism", "workers"),
    [([], "4", "3"), (["--max_slots=2"], "2", "2"), (["--max_slots=9"], "4", "3"), (["--parallelism=5"], "5", "3")],
)
def test_a_job_takes_no_more_slots_than_it_is_told_to(words, parallelism, workers, monkeypatch):
    monkeypatch.setattr(flink_runner.FlinkCluster, "at", lambda master: Cluster())
    given = [
        "--runner=FlinkRunner",
        "--flink_master=host:8081",
        "--flink_job_server_jar=x",
        "--environment_type=DOCKER",
    ]
    completed = find_runner([*given, *words]).complete()
    assert {f"--parallelism={parallelism}", f"--sdk_worker_parallelism={workers}"} <= set(completed)
    assert not [word for word in completed if "max_slots" in word]


@pytest.mark.parametrize("runner", ["FlinkRunner", "apache_beam.runners.DataflowRunner"])
def test_jobs_that_need_no_launcher_may_be_left(runner):
    find_runner([f"--runner={runner}"]).check_detached("no_wait")


def test_the_folder_of_a_build_remembers_its_job(tmp_path):
    assert read_job(str(tmp_path)) is None
    record = JobRecord("FlinkRunner", "b1ab", "http://host:8081/#/job/running/b1ab")
    record.write(str(tmp_path))
    assert read_job(str(tmp_path)) == record


def test_a_record_that_a_power_cut_emptied_is_no_job(tmp_path):
    (tmp_path / "job.json").write_bytes(b"")
    assert read_job(str(tmp_path)) is None


def test_a_small_jar_has_what_reads_the_pipeline_and_no_library(tmp_path):
    whole, small = tmp_path / "whole.jar", tmp_path / "small.jar"
    names = [
        "META-INF/MANIFEST.MF",
        "org/apache/beam/runners/flink/FlinkPipelineRunner.class",
        "org/apache/beam/runners/flink/FlinkPortableRunnerResult$Detached.class",
        "org/apache/beam/runners/jobsubmission/PortablePipelineJarUtils.class",
    ]
    others = ["org/apache/beam/runners/flink/FlinkPipelineOptions.class", "org/apache/beam/vendor/grpc/Grpc.class"]
    with zipfile.ZipFile(whole, "w") as jar:
        for name in [*names, *others]:
            jar.writestr(name, name)
    write_small_jar(str(whole), str(small))
    with zipfile.ZipFile(small) as jar:
        assert jar.namelist() == names
        assert [jar.read(name).decode() for name in names] == names
