"""A build with all stages, on a cluster of this machine with the numbers of `deploy/kubernetes/flink.yaml`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from tests.integration.cluster_builds import hashes, make_hostile, read_reasons
from tests.integration.servers import flink, processes
from tests.integration.servers.processes import PROJECT

pytestmark = pytest.mark.nightly

KUBERNETES = PROJECT / "deploy" / "kubernetes"


def arguments() -> dict[str, str]:
    """The flags of the launcher."""
    spec = yaml.safe_load((KUBERNETES / "job.yaml").read_text())["spec"]["template"]["spec"]
    return dict(word.removeprefix("--").partition("=")[::2] for word in spec["containers"][0]["args"])


@pytest.fixture(scope="module")
def deployment() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((KUBERNETES / "flink.yaml").read_text())["spec"]
    return found


@pytest.fixture(scope="module")
def photos_twice(photos, tmp_path_factory) -> Path:
    """Photos with copies, so that each stage has work."""
    folder = Path(shutil.copytree(photos, tmp_path_factory.mktemp("photos") / "photos"))
    for path in sorted(folder.rglob("*_0?.jpg"))[:5]:
        shutil.copy(path, path.with_name(f"copy_of_{path.name}"))
    return folder


# A crash among 40, a hang among 200.
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [200, pytest.param(40_000, marks=pytest.mark.nightly)])
def test_many_crashes_and_hangs_do_not_use_up_the_restarts_of_a_detached_job(photos, tmp_path, run, monkeypatch, count):
    with Image.open(photos / "cat/cat_01.jpg") as photo:
        photo.resize((64, 64)).save(tmp_path / "small.jpg")
    data, reasons = (tmp_path / "small.jpg").read_bytes(), {}
    for number in range(count):
        fate = "hang" if number % 200 == 3 else "crash" if number % 40 == 7 else "good"
        path = tmp_path / f"in/{number % 40}/{number}_{fate}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Distinct bytes behind the end of the picture.
        path.write_bytes(data + b"%d" % number)
        if fate != "good":
            reasons[f"{number % 40}/{path.name}"] = {"hang": "decode_timeout", "crash": "decoder_crash"}[fate]
    settings = (PROJECT / "deploy/flink/builds.yaml").read_text()
    (tmp_path / "settings.yaml").write_text(settings.replace("per-interval: 10", "per-interval: 3"))
    words = [f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--image_size=32", "--max_failures=0.5"]
    words += ["--image_timeout=3", "--no_wait", *make_hostile(monkeypatch, crash="*_crash.jpg", hang="*_hang.jpg")]
    with flink.flink_cluster(tmp_path / "flink", options=[f"--settings={tmp_path / 'settings.yaml'}"]) as cluster:
        ran = run("convert", *words, "--runner=FlinkRunner", f"--flink_master={cluster.master}")
        assert ran.code == 0, ran.err
        processes.wait_until(lambda: not cluster.running_jobs(), what="the end of the job", seconds=3000)
        (job,) = cluster.get("/jobs/overview")["jobs"]
        assert (job["state"], (tmp_path / "out/_SUCCESS").exists()) == ("FINISHED", True), cluster.failures(job["jid"])
        # `-s` shows it.
        print({"samples": count, "seconds": job["duration"] // 1000, "restarts": cluster.failures(job["jid"])})
    assert read_reasons(tmp_path / "out") == reasons


def test_a_build_with_all_stages_runs_on_the_cluster_that_ships(photos_twice, tmp_path, run, deployment):
    settings = dict(deployment["flinkConfiguration"])
    slots = int(settings.pop("taskmanager.numberOfTaskSlots"))
    (tmp_path / "settings.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    memory, launcher = deployment["taskManager"]["resource"]["memory"], arguments()
    task_managers = int(launcher["parallelism"]) // slots
    words = ["convert", f"--input={photos_twice}", "--image_size=64", "--splits=train=0.8,validation=0.2"]
    words += ["--name=photos", "--duplicates=drop", "--near_duplicates=4", "--versioned", "--num_shards=3"]
    assert run(*words, f"--output={tmp_path / 'local'}").code == 0
    options = [f"--memory={memory}", f"--settings={tmp_path / 'settings.yaml'}"]
    with flink.flink_cluster(tmp_path / "flink", task_managers=task_managers, slots=slots, options=options) as cluster:
        workers = [f"--{name}={launcher[name]}" for name in ("parallelism", "sdk_worker_parallelism")]
        on_flink = ["--runner=FlinkRunner", f"--flink_master={cluster.master}", *workers]
        ran = run(*words, f"--output={tmp_path / 'flink_out'}", *on_flink)
        assert ran.code == 0, ran.err
        assert "starts tasks again" not in ran.err
        (job,) = cluster.get("/jobs/overview")["jobs"]
        # As docs/clusters.md says.
        assert len(cluster.get(f"/jobs/{job['jid']}")["vertices"]) == 70
    local, on_cluster = (next((tmp_path / name).glob("20*")) for name in ("local", "flink_out"))
    assert hashes(on_cluster) == hashes(local)
