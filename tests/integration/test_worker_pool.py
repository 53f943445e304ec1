"""The pool of Python workers that `deploy/kubernetes/flink.yaml` runs beside each task manager, here beside Prism."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from tests.integration.servers import processes

pytestmark = pytest.mark.nightly


@pytest.fixture
def pool(tmp_path):
    """The port of a pool. Beam's image starts it with its own `boot` as the worker."""
    port = processes.free_port()
    worker = Path(sys.executable).with_name("beam-tfrecords-worker")
    command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main"]
    flags = [f"--service_port={port}", f"--container_executable={worker}"]
    with processes.running([*command, *flags], port=port, log=tmp_path / "pool.log"):
        yield port


def test_a_build_by_workers_of_a_pool_has_the_bytes_of_a_local_one(photos, tmp_path, run, build, pool):
    flags = [f"--input={photos}", "--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]
    prism = ["--runner=PrismRunner", f"--prism_location={processes.binary('prism')}"]
    workers = ["--environment_type=EXTERNAL", f"--environment_config=localhost:{pool}"]
    ran = run("convert", f"--output={tmp_path / 'pool'}", *flags, *prism, *workers)
    assert ran.code == 0, ran.err
    assert "Starting worker" in (tmp_path / "pool.log").read_text()
    build(tmp_path / "local", *flags)
    assert open_dataset(tmp_path / "pool").shards == open_dataset(tmp_path / "local").shards
