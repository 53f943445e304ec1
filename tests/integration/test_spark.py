"""`convert` on Spark: the same bytes as the local runner's."""

from __future__ import annotations

import os
import signal

import apache_beam as beam

from beam_tfrecords import WriteTFRecordShards
from beam_tfrecords.beam_pipelines.execution.runners import Execution, find_runner
from beam_tfrecords.tfrecord import read_records
from tests.integration.cluster_builds import SLOW, ClusterBuild, check, hashes, slow_hashes, slow_photos
from tests.integration.servers import processes

__all__ = ["slow_hashes", "slow_photos"]

FLAGS = ["--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]
ON_SPARK = ["--runner=SparkRunner", "--spark_master_url=local[2]"]


def test_shards_and_indices_are_those_of_the_local_runner(photos, tmp_path, run):
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'spark'}", *FLAGS, *ON_SPARK)
    assert ran.code == 0, ran.err
    assert ran.err.startswith("Spark at local[2]; set: --environment_type=PROCESS ")
    assert run("convert", f"--input={photos}", f"--output={tmp_path / 'local'}", *FLAGS).code == 0
    assert hashes(tmp_path / "spark") == hashes(tmp_path / "local")


def test_any_examples_are_written_to_shards(tmp_path):
    records = [b"%d" % number * (number % 50) for number in range(1_000)]
    execution = Execution.prepare(find_runner(ON_SPARK), verbose=False, quiet=True)
    execution.run(
        lambda root: root | beam.Create(records) | WriteTFRecordShards(str(tmp_path / "out/any"), num_shards=3)
    )
    found = []
    for number in range(3):
        with (tmp_path / f"out/any.tfrecord-{number:05d}-of-00003").open("rb") as file:
            found += [record.data for record in read_records(file)]
    assert sorted(found) == sorted(records)
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_a_python_worker_is_killed_and_the_job_submitted_again(tmp_path, slow_photos, slow_hashes):
    build = ClusterBuild(tmp_path / "out", f"--input={slow_photos}", *SLOW, *ON_SPARK)
    finished = build.wait_for_open_blocks()
    (job_server,) = processes.children(build.pid)
    os.kill(processes.children(job_server)[0], signal.SIGKILL)
    check(build, finished, slow_hashes, says="a new one resumes from the finished blocks")
    assert not processes.is_running(job_server)


def test_no_wait_is_refused(photos, tmp_path, run):
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, *ON_SPARK, "--no_wait")
    assert ran.code == 2
    assert "--no_wait: with --runner=SparkRunner the job needs this process until it ends" in ran.err
