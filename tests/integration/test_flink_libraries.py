"""A Flink cluster that has Beam's job server among its libraries: the same bytes, with workers that stay."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.utils.subprocess_server import JavaJarServer

from tests.integration.cluster_builds import hashes
from tests.integration.servers import flink

pytestmark = pytest.mark.nightly

FLAGS = ["--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink.FlinkCluster]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    jar = cache / "beam-tfrecords/jars/flink-1.19-job-server.jar"  # of deploy/flink/job-server/build.sh
    if not jar.exists():
        jar = JavaJarServer.local_jar(JavaJarServer.path_to_beam_jar(":runners:flink:1.19:job-server:shadowJar"))
    with flink.flink_cluster(tmp_path_factory.mktemp("flink"), options=[f"--job-server={jar}"]) as running:
        yield running


def started(cluster: flink.FlinkCluster) -> int:
    """Workers that the task managers have started so far."""
    return cluster.logs().count("Attempting to start process")


def test_a_cluster_with_the_job_server_gets_a_small_jar_and_keeps_workers(photos, tmp_path, run, cluster):
    words = ["convert", f"--input={photos}", *FLAGS]
    assert run(*words, f"--output={tmp_path / 'local'}").code == 0
    # On a busy machine, more than the default of half a second may lie between two stages.
    on_flink = ["--runner=FlinkRunner", f"--flink_master={cluster.master}", "--environment_cache_millis=20000"]
    ran = run(*words, f"--output={tmp_path / 'flink'}", *on_flink)
    assert ran.code == 0, ran.err
    assert hashes(tmp_path / "flink") == hashes(tmp_path / "local")
    # A slot starts one for each of a dozen stages otherwise.
    assert started(cluster) <= 6


def test_a_kept_worker_that_is_killed_is_replaced(photos, tmp_path, run, cluster):
    words = ["convert", f"--input={photos}", *FLAGS]
    assert run(*words, f"--output={tmp_path / 'local'}").code == 0
    # Those of the test before may still wait.
    others = set(cluster.python_workers())
    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and len(killed) < 2:
            for worker in {*cluster.python_workers()} - {*killed, *others}:
                if len(killed) < 2 and list((tmp_path / "flink").glob(".build/*/workers/*")):
                    os.kill(worker, signal.SIGKILL)
                    killed.append(worker)
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    ran = run(*words, f"--output={tmp_path / 'flink'}", "--runner=FlinkRunner", f"--flink_master={cluster.master}")
    killer.join()
    assert ran.code == 0, ran.err
    assert "--environment_cache_millis=500" in ran.err
    assert len(killed) == 2
    assert hashes(tmp_path / "flink") == hashes(tmp_path / "local")
