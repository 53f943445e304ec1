"""`convert` on a Flink cluster: the same bytes as the local runner's, with nothing to say but the address."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.integration.cluster_builds import PROGRAM, hashes
from tests.integration.servers import flink, processes
from tests.progress_lines import without_progress

pytestmark = pytest.mark.nightly

FLAGS = ["--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flink.FlinkCluster]:
    with flink.flink_cluster(tmp_path_factory.mktemp("flink"), slots=2) as running:
        yield running


@pytest.fixture(scope="module")
def on_flink(cluster: flink.FlinkCluster) -> list[str]:
    return ["--runner=FlinkRunner", f"--flink_master={cluster.master}"]


@pytest.fixture(scope="module")
def expected(photos, tmp_path_factory, run) -> list[tuple[str, str, str | None]]:
    out = tmp_path_factory.mktemp("local") / "out"
    ran = run("convert", f"--input={photos}", f"--output={out}", *FLAGS)
    assert ran.code == 0, ran.err
    return hashes(out)


def test_the_address_of_the_cluster_is_enough(photos, tmp_path, run, on_flink, expected, cluster):
    out = tmp_path / "out"
    ran = run("convert", f"--input={photos}", f"--output={out}", *FLAGS, *on_flink)
    assert ran.code == 0, ran.err
    assert hashes(out) == expected
    assert not (out / ".build").exists()
    (line,) = [line for line in ran.err.splitlines() if line.startswith("Flink ")]
    assert line.startswith(f"Flink {flink.VERSION} with 4 free task slots; set: --environment_type=PROCESS ")
    assert "--parallelism=4" in line
    # The name of the dataset is in that of its job, among those of others on Flink's page.
    (job,) = cluster.get("/jobs/overview")["jobs"]
    assert job["name"].startswith("beam-tfrecords-photos-")


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_bytes_do_not_depend_on_the_parallelism(photos, tmp_path, run, on_flink, expected, parallelism):
    out = tmp_path / "out"
    ran = run("convert", f"--input={photos}", f"--output={out}", *FLAGS, *on_flink, f"--parallelism={parallelism}")
    assert ran.code == 0, ran.err
    assert hashes(out) == expected


def test_a_version_that_a_cluster_builds_reuses_one_that_was_built_locally(photos, tmp_path, run, on_flink):
    shutil.copytree(photos, tmp_path / "photos")
    words = [f"--input={tmp_path / 'photos'}", "--name=photos", *FLAGS, "--guard=off"]
    out = tmp_path / "out"
    assert run("convert", f"--output={out}", *words, "--versioned").code == 0
    (tmp_path / "photos/cat/cat_01.jpg").unlink()
    shutil.copy(photos / "cat/cat_01.jpg", tmp_path / "photos/space/new.jpg")
    ran = run("convert", f"--output={out}", *words, "--versioned", *on_flink)
    assert ran.code == 0, ran.err
    assert "copied 41, reserialized 0, changed 0, added 1, removed 1" in ran.out
    assert run("convert", f"--output={tmp_path / 'new'}", *words).code == 0
    latest = out / (out / "LATEST").read_text().strip()
    assert hashes(latest) == hashes(tmp_path / "new")


def test_a_dataset_verifies_on_the_cluster(photos, tmp_path, run, on_flink):
    out = tmp_path / "out"
    assert run("convert", f"--input={photos}", f"--output={out}", *FLAGS).code == 0
    ran = run("verify", f"--dataset={out}", f"--temp_location={tmp_path}", *on_flink)
    assert (ran.code, ran.out.split(":")[0]) == (0, "OK"), ran.err


def test_an_image_that_occurs_very_often_is_no_record_too_large_for_flink(tmp_path, run, on_flink):
    """20 MB of rows of the index, with names as long as such."""
    photo = tmp_path / "photo.jpg"
    Image.new("RGB", (16, 16)).save(photo)
    folder = Path(*(letter * 200 for letter in "abcd"))
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for number in range(12_000):
            archive.write(photo, folder / f"{number:05d}.jpg")
    built = {}
    for out, more in ((tmp_path / "local", []), (tmp_path / "flink", [*on_flink, "--parallelism=1"])):
        ran = run("convert", f"--input={tmp_path}/photos.zip", f"--output={out}", "--layout=image", *more)
        assert ran.code == 0, ran.err
        built[out.name] = hashes(out), (out / "duplicates.jsonl").read_bytes()
    assert built["flink"] == built["local"]
    assert json.loads(built["flink"][1])["copies"] == 12_000


def test_no_wait_returns_with_the_job_and_the_cluster_finishes_it(photos, tmp_path, run, on_flink, cluster, expected):
    out = tmp_path / "out"
    ran = run("convert", f"--input={photos}", f"--output={out}", *FLAGS, *on_flink, "--no_wait")
    assert ran.code == 0, ran.err
    (job,) = (json.loads(path.read_text()) for path in out.glob(".build/*/job.json"))
    assert job["runner"] == "FlinkRunner"
    assert cluster.get(f"/jobs/{job['job_id']}")["jid"] == job["job_id"]
    assert ran.out.splitlines() == [
        f"submitted: job {job['job_id']}",
        f"watch it: {job['url']}",
        f"how far it is: beam-tfrecords status --output={out}",
    ]
    processes.wait_until((out / "_SUCCESS").exists, what="the end of the job")
    assert hashes(out) == expected
    processes.wait_until(lambda: not cluster.running_jobs(), what="free slots")


def test_who_follows_a_job_without_a_launcher_gets_what_a_launcher_that_waits_leaves(photos, tmp_path, run, on_flink):
    out, versions = tmp_path / "out", []
    words = ["--versioned", "--keep_versions=1", "--grace=0s", "--guard=off", "--no_wait", *on_flink]
    for seed, more in ((0, []), (1, ["--no_report"])):
        ran = run("convert", f"--input={photos}", f"--output={out}", f"--seed={seed}", *FLAGS, *words, *more)
        assert ran.code == 0, ran.err
        files = [f"--json_summary={tmp_path}/run.json", f"--metrics_file={tmp_path}/run.prom"]
        ran = run("status", f"--output={out}", "--follow", *files)
        assert ran.code == 0, ran.err
        summary = json.loads((tmp_path / "run.json").read_text())
        versions.append(Path(summary["dataset"]).name)
        assert (summary["exit_code"], summary["status"], summary["records"]) == (0, "published", 42)
        assert summary["removed_versions"] == versions[:-1]
        assert summary["seconds"] > 1
        assert "beam_tfrecords_records{" in (tmp_path / "run.prom").read_text()
        # All is done when the follower ends.
        assert sorted(path.name for path in out.iterdir()) == [versions[-1], "LATEST"]
        assert (out / versions[-1] / "report.html").exists() == (not more)


def test_status_says_that_a_job_without_a_launcher_was_cancelled(photos, tmp_path, run, on_flink, cluster):
    out = tmp_path / "out"
    ran = run("convert", f"--input={photos}", f"--output={out}", *FLAGS, *on_flink, "--no_wait")
    assert ran.code == 0, ran.err
    (job,) = cluster.running_jobs()
    assert json.loads(run("status", f"--output={out}", "--json").out)["state"] in ("submitted", "running")
    cluster.cancel(job)
    processes.wait_until(lambda: cluster.job_state(job) == "CANCELED", what="the end of a cancelled job")
    found = json.loads(run("status", f"--output={out}", "--json").out)
    assert (found["state"], found["build"]["exit_code"]) == ("dead", 1)
    assert found["build"]["why"] == [f"job {job} was canceled"]
    ran = run("status", f"--output={out}", "--follow")
    assert (ran.code, f"the job has ended: job {job} was canceled" in ran.out) == (1, True)


def test_a_guard_that_trips_in_a_job_without_a_launcher_leaves_nothing_of_the_version(
    photos, tmp_path, run, on_flink, cluster
):
    shutil.copytree(photos, tmp_path / "photos")
    out = tmp_path / "out"
    words = ["convert", f"--input={tmp_path / 'photos'}", f"--output={out}", *FLAGS, "--versioned"]
    assert run(*words).code == 0
    shutil.rmtree(tmp_path / "photos/cat")
    before = sorted(path.name for path in out.iterdir())
    ran = run(*words, *on_flink, "--no_wait")
    assert ran.code == 0, ran.err
    outcome = "outcome.json"
    processes.wait_until(lambda: list(out.glob(f".build/*/{outcome}")), what="the end of the job")
    found = json.loads(run("status", f"--output={out}", "--json").out)
    assert (found["state"], found["build"]["exit_code"]) == ("unpublished", 3)
    assert sorted(path.name for path in out.iterdir() if path.name != ".build") == before
    processes.wait_until(lambda: not cluster.running_jobs(), what="free slots")
    # The finished blocks are not converted again.
    assert run(*words, "--accept=all").code == 0


def test_stages_have_their_names_and_metrics_are_counted(photos, tmp_path, run, on_flink, cluster):
    out = tmp_path / "out"
    ran = run("convert", f"--input={photos}", f"--output={out}", *FLAGS, *on_flink, "--job_name=named")
    assert ran.code == 0, ran.err
    (job,) = [job["jid"] for job in cluster.get("/jobs/overview")["jobs"] if job["name"] == "named"]
    vertices = cluster.get(f"/jobs/{job}")["vertices"]
    stages = " ".join(vertex["name"] for vertex in vertices)
    # As docs/clusters.md says.
    assert len(vertices) == 40
    for stage in ("ListSource", "AssignOrder", "ConvertBlocks", "PlanShards", "ComposeShards", "PublishDataset"):
        assert stage in stages, stages
    (metrics,) = [
        one["value"]
        for one in cluster.get(f"/jobs/{job}/accumulators")["user-task-accumulators"]
        if one["name"] == "__metricscontainers"
    ]
    assert "samples_written" in metrics


# Wrong requests: nothing is started.


def refused(photos: Path, out: Path, *words: str) -> str:
    command = [PROGRAM, "convert", f"--input={photos}", f"--output={out}", "--image_size=8", *words]
    # A connection that is never answered would be given up after two minutes.
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert not out.exists()
    (line,) = without_progress(ran.stderr).splitlines()
    return line


def test_a_master_that_never_answers_is_refused(photos, tmp_path):
    # Of the block for documentation: routed nowhere (RFC 5737).
    line = refused(photos, tmp_path / "out", "--runner=FlinkRunner", "--flink_master=192.0.2.1:8081")
    assert "--flink_master=192.0.2.1:8081: no Flink job manager answers there" in line


def test_a_job_server_that_cannot_be_downloaded_is_explained(photos, tmp_path, on_flink, monkeypatch):
    # As on a machine that has never built or downloaded one, and cannot reach Maven Central.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", f"http://localhost:{processes.free_port()}")
    line = refused(photos, tmp_path / "out", *on_flink)
    assert "Beam's job server for flink 1.19 is not available: Unable to fetch remote job server jar" in line
    assert "build one with deploy/flink/job-server/build.sh, or name a jar with --flink_job_server_jar" in line


def test_machines_without_the_worker_program_end_the_build_and_say_so(photos, tmp_path, run, cluster, on_flink):
    worker = ["--environment_type=PROCESS", '--environment_config={"command": "/opt/not/there"}']
    ran = run("convert", f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS, *on_flink, *worker)
    assert ran.code == 1
    assert "a task manager has no /opt/not/there; install this package there in the same place as here" in ran.err
    assert not cluster.running_jobs()


def test_workers_that_cannot_see_the_output_end_the_build_and_say_so(photos, tmp_path, cluster, on_flink):
    """A mount of the launcher alone stands for the disk of another machine."""
    out = tmp_path / "here" / "out"
    out.parent.mkdir()
    command = [PROGRAM, "convert", f"--input={photos}", f"--output={out}", "--image_size=8", *on_flink]
    script = f"mount -t tmpfs tmpfs {out.parent} && exec {' '.join(map(str, command))}"
    ran = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False)
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip("needs the right to mount a tmpfs: run as root")
    assert ran.returncode == 1
    _, *before, last = without_progress(ran.stderr).splitlines()
    # None, where two attempts fail between two looks at the job.
    assert all(line.startswith("Flink starts tasks again: ") for line in before)
    assert "cannot read" in last
    assert "expected an output that all workers reach under the same name" in last
    # By the launcher, before the cluster gives up.
    newest = max(cluster.get("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
    assert newest["state"] == "CANCELED"
