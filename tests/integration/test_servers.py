"""The servers that the other integration tests stand on do what those tests take for granted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from google.api_core.exceptions import BadRequest, NotFound, PreconditionFailed
from google.cloud.storage.exceptions import InvalidResponse

from tests.integration.servers import flink, gcs, prism, processes

pytestmark = pytest.mark.nightly

_WORKER = Path(sys.executable).with_name("beam-tfrecords-worker")


@pytest.fixture(params=["memory", "files"])
def gcs_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[gcs.GcsServer]:
    with gcs.gcs_server(tmp_path, in_memory=request.param == "memory", buckets=("bucket",)) as server:
        yield server


@pytest.fixture
def gcs_here(gcs_server: gcs.GcsServer, monkeypatch: pytest.MonkeyPatch) -> gcs.GcsServer:
    for name, value in gcs_server.environment.items():
        monkeypatch.setenv(name, value)
    return gcs_server


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink.FlinkCluster]:
    with flink.flink_cluster(tmp_path_factory.mktemp("flink")) as running:
        yield running


def _write(path: str, data: bytes) -> None:
    with FileSystems.create(path) as file:
        file.write(data)


def _listed(pattern: str) -> dict[str, int]:
    (match,) = FileSystems.match([pattern])
    return {file.path: file.size_in_bytes for file in match.metadata_list}


def _process_options(folder: Path) -> list[str]:
    config = json.dumps({"command": str(_WORKER), "env": {"MARK": str(folder)}})
    return ["--environment_type=PROCESS", f"--environment_config={config}"]


def _run_and_note_processes(folder: Path, options: list[str]) -> set[int]:
    """Runs a pipeline that groups, and returns the processes that worked on the groups."""
    home = str(folder)

    def work(key_and_values: tuple[int, list[int]]) -> None:
        time.sleep(0.2)
        assert os.environ["MARK"] == home
        Path(home, f"{key_and_values[0]}-{os.getpid()}").touch()

    with beam.Pipeline(options=PipelineOptions(options)) as root:
        _ = (
            root
            | beam.Create(range(200))
            | beam.Map(lambda number: (number % 20, number))
            | beam.GroupByKey()
            | beam.Map(work)
        )
    names = [file.name.split("-") for file in folder.iterdir() if file.name[0].isdigit()]
    assert {int(key) for key, _ in names} == set(range(20))
    return {int(pid) for _, pid in names}


def test_beam_file_systems_work_on_gcs(gcs_here: gcs.GcsServer) -> None:
    large = os.urandom(20 << 20)
    _write("gs://bucket/a/one", b"0123456789")
    _write("gs://bucket/a/large", large)
    assert _listed("gs://bucket/a/**") == {"gs://bucket/a/one": 10, "gs://bucket/a/large": 20 << 20}
    with FileSystems.open("gs://bucket/a/large") as file:
        file.seek(5 << 20)
        assert file.read(1000) == large[5 << 20 :][:1000]
    FileSystems.rename(["gs://bucket/a/one"], ["gs://bucket/b/two"])
    FileSystems.copy(["gs://bucket/b/two"], ["gs://bucket/b/three"])
    FileSystems.delete(["gs://bucket/a/large"])
    assert _listed("gs://bucket/**") == {"gs://bucket/b/two": 10, "gs://bucket/b/three": 10}
    assert FileSystems.exists("gs://bucket/b/two")
    assert not FileSystems.exists("gs://bucket/a/one")
    assert FileSystems.open("gs://bucket/b/two").read() == b"0123456789"


def test_gcs_keeps_generation_preconditions(gcs_server: gcs.GcsServer) -> None:
    bucket = gcs_server.client().bucket("bucket")
    source, target = bucket.blob("source"), bucket.blob("target")
    source.upload_from_string(b"abc")
    target.compose([source], if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        target.compose([source], if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        target.rewrite(source, if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        target.upload_from_string(b"other", if_generation_match=0)
    with pytest.raises(InvalidResponse), target.open("wb", if_generation_match=0) as file:
        file.write(b"other")
    with pytest.raises(PreconditionFailed):
        bucket.blob("target").delete(if_generation_match=target.generation + 1)
    assert target.download_as_bytes() == b"abc"
    target.compose([source, source], if_generation_match=target.generation)
    assert target.download_as_bytes() == b"abcabc"


def test_gcs_composes_up_to_32_objects_that_exist(gcs_server: gcs.GcsServer) -> None:
    bucket = gcs_server.client().bucket("bucket")
    parts = [bucket.blob(f"part-{number}") for number in range(33)]
    for number, part in enumerate(parts):
        part.upload_from_string(b"%d," % number)
    whole = bucket.blob("whole")
    whole.compose(parts[:32])
    assert whole.download_as_bytes() == b"".join(b"%d," % number for number in range(32))
    with pytest.raises(BadRequest):
        whole.compose(parts)
    with pytest.raises(NotFound):
        whole.compose([parts[0], bucket.blob("nowhere")])


def test_gcs_refuses_what_a_test_asks_it_to_refuse(gcs_here: gcs.GcsServer) -> None:
    _write("gs://bucket/one", b"data")
    gcs_here.refuse("GET", "/o/one", status=503, times=2)
    before = len(gcs_here.requests)
    assert FileSystems.open("gs://bucket/one").read() == b"data"
    assert sum(request.startswith("GET /storage/v1/b/bucket/o/one") for request in gcs_here.requests[before:]) == 3


def test_another_process_reaches_gcs_at_once(gcs_server: gcs.GcsServer) -> None:
    program = (
        "import time; from apache_beam.io.filesystems import FileSystems;"
        "start = time.monotonic(); FileSystems.exists('gs://bucket/one'); print(time.monotonic() - start)"
    )
    environment = {**os.environ, **gcs_server.environment}
    output = subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, check=True)
    assert float(output.stdout) < 5


def test_prism_runs_python_in_a_process_of_its_own(tmp_path: Path) -> None:
    with prism.prism_server(tmp_path) as endpoint:
        options = ["--runner=PortableRunner", f"--job_endpoint={endpoint}", *_process_options(tmp_path)]
        (pid,) = _run_and_note_processes(tmp_path, options)
    assert pid != os.getpid()
    processes.wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the worker ends with its server")


def test_a_second_up_leaves_a_running_flink_cluster_alone(cluster: flink.FlinkCluster) -> None:
    before = [cluster.task_manager_pid(1), cluster.task_manager_pid(2)]
    with flink.flink_cluster(cluster.run_dir.parent / "other", task_managers=1) as other:
        assert other.get("/overview")["taskmanagers"] == 1
    assert [cluster.task_manager_pid(1), cluster.task_manager_pid(2)] == before
    assert cluster.get("/overview")["slots-available"] == 2


def test_flink_finishes_a_batch_job_whose_task_manager_is_killed(cluster: flink.FlinkCluster, tmp_path: Path) -> None:
    done = tmp_path / "done"
    done.mkdir()
    job = flink.submit(cluster, flink.compile_probe(tmp_path), str(done), "8", "700", parallelism=2)
    processes.wait_until(lambda: len(list(done.iterdir())) >= 2, what="the first two groups")
    cluster.kill_task_manager(1)
    assert cluster.job_state(job) != "FINISHED"
    cluster.start_task_manager()
    processes.wait_until(lambda: cluster.job_state(job) in ("FINISHED", "FAILED"), what="the job's end")
    assert cluster.job_state(job) == "FINISHED"
    assert cluster.failures(job)
    assert {int(file.name.split("-")[0]) for file in done.iterdir()} == set(range(8))
