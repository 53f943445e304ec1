"""`convert` on Spark: the same bytes as the local runner's."""

from __future__ import annotations

import os
import signal

import apache_beam as beam
import pytest

from beam_tfrecords import WriteTFRecordShards
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.tfrecord import read_records
from tests.integration.cluster_builds import (
    SLOW,
    ClusterBuild,
    check,
    hashes,
    make_hostile,
    read_reasons,
    slow_hashes,
    slow_photos,
)
from tests.integration.servers import processes

pytestmark = pytest.mark.nightly

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
    execution = Execution.prepare(find_runner(ON_SPARK), quiet=True)
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
    job_server = next(child for child in processes.children(build.pid) if processes.children(child))
    os.kill(processes.children(job_server)[0], signal.SIGKILL)
    check(build, finished, slow_hashes, says="a new one resumes from the finished blocks")
    assert not processes.is_running(job_server)


def test_the_launcher_is_killed_and_its_job_ends_with_it(tmp_path, slow_photos, slow_hashes, run):
    words = [f"--input={slow_photos}", *SLOW]
    build = ClusterBuild(tmp_path / "out", *words, *ON_SPARK)
    finished = build.wait_for_open_blocks()
    job_server = next(child for child in processes.children(build.pid) if processes.children(child))
    os.kill(build.pid, signal.SIGKILL)
    build.wait()
    processes.wait_until(lambda: not processes.is_running(job_server), what="the end of the job server")
    assert run("status", f"--output={build.output}").out.startswith(f"{build.output}: dead\n")
    check(ClusterBuild(build.output, *words), finished, slow_hashes)


def test_crashes_and_hangs_cost_their_samples_alone(photos, tmp_path, run, monkeypatch):
    hostile = make_hostile(monkeypatch, crash="*_0[23].jpg", hang="cat/cat_01.jpg")
    words = [f"--input={photos}", f"--output={tmp_path / 'out'}", "--image_size=64", "--max_failures=0.5"]
    ran = run("convert", *words, "--image_timeout=3", *hostile, *ON_SPARK)
    assert ran.code == 0, ran.err
    assert ran.err.count("a new one resumes from the finished blocks") < 3
    crashed = [path.relative_to(photos).as_posix() for path in photos.glob("*/*_0[23].jpg")]
    assert read_reasons(tmp_path / "out") == {
        **dict.fromkeys(crashed, "decoder_crash"),
        "cat/cat_01.jpg": "decode_timeout",
    }


def test_no_wait_is_refused(photos, tmp_path, run):
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, *ON_SPARK, "--no_wait")
    assert ran.code == 2
    assert "--no_wait: with --runner=SparkRunner the job needs this process until it ends" in ran.err
