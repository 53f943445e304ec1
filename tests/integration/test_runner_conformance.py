"""All runners give the bytes of the local one: every source, all stages, and functions and pipelines of the user."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import pytest
from PIL import Image

from beam_tfrecords import Sample, WriteDataset, WriteTFRecordShards, build, open_dataset
from tests.core.commands import run_there
from tests.docs.inputs import make_inputs
from tests.docs.pages import PROJECT, Passage, passages_of
from tests.framing import records_of
from tests.integration import buckets
from tests.integration.cluster_builds import (
    PROGRAM,
    SLOW,
    ClusterBuild,
    Hashes,
    check,
    hashes,
    make_hostile,
    read_reasons,
    slow_hashes,
    slow_photos,
)
from tests.integration.servers import flink, processes
from tests.integration.servers.prism import prism_server
from tests.web_server import web_server
from tests.writers import WRITERS, flags_of

__all__ = ["slow_hashes", "slow_photos"]

FLAGS = ("--splits=train=0.8,validation=0.2", "--num_shards=2")
ON_PRISM = ["--runner=PrismRunner", f"--prism_location={processes.BINARIES / 'prism'}"]
ON_SPARK = ["--runner=SparkRunner", "--spark_master_url=local[2]"]
night = pytest.mark.nightly


@pytest.fixture(scope="module")
def prism() -> list[str]:
    return ON_PRISM


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Prism with a pool of workers, which `deploy/kubernetes/flink.yaml` runs beside each task manager."""
    port, folder = processes.free_port(), tmp_path_factory.mktemp("pool")
    # Beam's image starts it with its own `boot` as the worker.
    worker = Path(sys.executable).with_name("beam-tfrecords-worker")
    command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main"]
    flags = [f"--service_port={port}", f"--container_executable={worker}"]
    with processes.running([*command, *flags], port=port, log=folder / "pool.log"):
        yield [*ON_PRISM, "--environment_type=EXTERNAL", f"--environment_config=localhost:{port}"]
    assert "Starting worker" in (folder / "pool.log").read_text()


@pytest.fixture(scope="module")
def spark() -> list[str]:
    return ON_SPARK


def run_flink(folder: Path, task_managers: int) -> Iterator[list[str]]:
    """Flags of a cluster of this module alone, with four slots; its environment has both services."""
    slots = 4 // task_managers
    with (
        buckets.services(folder, *buckets.SCHEMES),
        flink.flink_cluster(folder / "flink", task_managers=task_managers, slots=slots) as cluster,
    ):
        yield ["--runner=FlinkRunner", f"--flink_master={cluster.master}"]


@pytest.fixture(scope="module")
def flink_2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    yield from run_flink(tmp_path_factory.mktemp("two"), task_managers=2)


@pytest.fixture(scope="module")
def flink_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    yield from run_flink(tmp_path_factory.mktemp("four"), task_managers=4)


@pytest.fixture(scope="module")
def on_runner(request: pytest.FixtureRequest) -> list[str]:
    """The flags of a runner."""
    flags: list[str] = request.getfixturevalue(request.param)
    return flags


def on(*runners: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("on_runner", runners, indirect=True)


@pytest.fixture(scope="module")
def convert_on_both(run) -> Callable[..., str]:
    """Runs a request here and where these flags say, into folders of these names; returns what the cluster's says."""

    def convert(where: Sequence[str], folder: Path, *words: str) -> str:
        for name, more in ("local", ()), ("cluster", where):
            ran = run("convert", f"--output={folder / name}", "--name=photos", "--image_size=32", *words, *more)
            assert ran.code == 0, ran.err
        assert hashes(folder / "cluster") == hashes(folder / "local")
        return str(ran.err)

    return convert


@on("prism", *(pytest.param(name, marks=night) for name in ("pool", "spark", "flink_2", "flink_4")))
def test_photos(photos, tmp_path, run, convert_on_both, on_runner):
    said = convert_on_both(on_runner, tmp_path, f"--input={photos}", *FLAGS)
    assert ON_SPARK[0] not in on_runner or said.startswith("Spark at local[2]; set: --environment_type=PROCESS ")
    assert ON_PRISM[0] not in on_runner or "PrismRunner" not in said
    assert run("verify", f"--dataset={tmp_path / 'cluster'}").code == 0
    assert not (tmp_path / "cluster/.build").exists()


@night
@on("spark", "flink_2", "flink_4")
@pytest.mark.parametrize("form", WRITERS)
def test_every_source(tmp_path, convert_on_both, on_runner, form):
    convert_on_both(on_runner, tmp_path, *flags_of(WRITERS[form].make(tmp_path / "in")))


@night
@on("spark", "flink_4")
def test_all_stages(photos, tmp_path, convert_on_both, on_runner):
    shutil.copytree(photos, tmp_path / "in")
    for path in sorted((tmp_path / "in").rglob("*_0?.jpg"))[:5]:
        shutil.copy(path, path.with_name(f"copy_of_{path.name}"))
    near = sorted((photos / "space").iterdir())
    for path in near:
        Image.open(path).convert("RGB").save(tmp_path / "in/cat" / path.name, quality=70)
    words = ["--splits=train=0.8,validation=0.2", "--duplicates=drop", "--near_duplicates=4", "--num_shards=3"]
    convert_on_both(on_runner, tmp_path, f"--input={tmp_path / 'in'}", *words)
    found = [(tmp_path / name / "duplicates.jsonl").read_bytes() for name in ("cluster", "local")]
    assert found[0] == found[1]
    assert found[0].count(b'"kind": "near"') == len(near)


@night
@on("flink_2")
@pytest.mark.parametrize(("source", "target"), [("gs", "gs"), ("s3", "s3"), ("gs", "s3")])
def test_buckets(photos, tmp_path, on_runner, source, target):
    buckets.upload(photos, f"{source}://photos")
    output = f"{target}://datasets/from {source}"
    buckets.build(
        f"--input={source}://photos", f"--output={output}", "--name=photos", "--image_size=64", *FLAGS, *on_runner
    )
    buckets.build(f"--input={photos}", f"--output={tmp_path / 'out'}", "--name=photos", "--image_size=64", *FLAGS)
    assert buckets.content_of(output) == buckets.content_of(str(tmp_path / "out"))


@night
@on("flink_2")
def test_images_of_the_web(photos, tmp_path, convert_on_both, on_runner):
    files = {path.name: path.read_bytes() for path in photos.glob("*/*_01.jpg")}
    with web_server(files) as server:
        rows = (f"{server.url}/plain/{name},{name.split('_')[0]}\n" for name in files)
        (tmp_path / "urls.csv").write_text("".join(["url,label\n", *rows]))
        convert_on_both(on_runner, tmp_path, f"--input={tmp_path / 'urls.csv'}", "--allow_private_addresses")


@night
@on("flink_2")
def test_a_large_folder_that_workers_list(photos, tmp_path, convert_on_both, on_runner, in_parts):
    convert_on_both(on_runner, tmp_path / "here", f"--input={photos}")
    counts = in_parts()
    convert_on_both(on_runner, tmp_path / "there", f"--input={photos}")
    assert counts[0] > 3
    assert counts == counts[:1] * 2
    assert hashes(tmp_path / "there/local") == hashes(tmp_path / "here/local")


# Functions and pipelines of the user

PAGE = PROJECT / "docs" / "your_own_code.md"
# Its modules are those of nobody but the launcher.
STEPS = {
    "transforms.py": """\
from importlib.machinery import PathFinder

from marks import change


def clean(sample):
    assert PathFinder.find_spec("marks") is None, "the worker finds the module by itself"
    return sample.replace(image=255 - sample.image, label=change(sample.label))
""",
    "marks.py": "def change(label):\n    return label.upper()\n",
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working folder of the launcher: the inputs of the page, and its files."""
    folder = tmp_path_factory.mktemp("work")
    make_inputs(folder)
    for name, text in STEPS.items():
        (folder / name).write_text(text)
    return folder


def words_of(passage: Passage) -> list[str]:
    """Returns the words of a command of ours."""
    return shlex.split(passage.text.replace("\\\n", " "))[1:]


def build_all(work: Path, out: Path, flags: list[str]) -> dict[str, Hashes]:
    """Builds what the page builds, and with functions of a file called `transforms.py`; name -> hashes."""
    module, command, script, rows, of_rows, _, pipeline, of_pipeline, *_ = passages_of(PAGE)
    # What a function opens itself is found where the worker runs.
    texts = {"my_steps": module, "my_rows": rows, "my_pipeline": pipeline}
    for name, passage in texts.items():
        text = passage.text.replace('"photos.db"', repr(str(work / "photos.db")))
        (work / f"{name}.py").write_text(text.replace('"paths.parquet"', repr(str(work / "paths.parquet"))))
    (work / "script.py").write_text(
        "import sys\n" + script.text.replace("map=upper_half)", "map=upper_half, beam_arguments=sys.argv[1:])")
    )
    classes = ",".join(sorted(path.name.upper() for path in (work / "photos").iterdir()))
    commands = {
        "views": [PROGRAM, *words_of(command)],
        "halves": [sys.executable, "script.py"],
        "marked": [
            *(PROGRAM, "convert", "--input=photos", "--output=out/marked"),
            *("--map=transforms:clean", f"--class_names={classes}"),
        ],
        "rows": [PROGRAM, *words_of(of_rows)],
        "piped": [PROGRAM, *words_of(of_pipeline)],
    }
    shutil.rmtree(work / "out", ignore_errors=True)
    for name, words in commands.items():
        ran = subprocess.run([*words, *flags], cwd=work, capture_output=True, text=True)
        assert ran.returncode == 0, (name, ran.stderr)
    (work / "out").rename(out)
    return {name: hashes(out / name) for name in commands}


@pytest.fixture(scope="module")
def built_here(work: Path) -> dict[str, Hashes]:
    """What the local runner makes."""
    return build_all(work, work / "local", [])


@night
@on("prism", "spark", "flink_2")
def test_functions_of_the_user(work, on_runner, built_here, tmp_path):
    assert build_all(work, tmp_path / "out", on_runner) == built_here


SETTINGS = {"image_size": 32, "splits": "train=0.7,test=0.3", "num_shards": 2, "duplicates": "drop", "name": "data"}


def make_samples(photos: Path) -> list[Sample]:
    """Samples of files, and of bytes."""
    return [
        Sample(
            path.relative_to(photos).as_posix(),
            image=path.read_bytes() if number % 2 else str(path),
            label=path.parent.name,
        )
        for number, path in enumerate(sorted(photos.glob("*/*.jpg")))
    ]


@night
@on("prism", "spark", "flink_2")
def test_samples_of_a_pipeline(on_runner, photos, tmp_path):
    samples = make_samples(photos)
    build(input=lambda: iter(samples), output=tmp_path / "built", quiet=True, **SETTINGS)
    run_there(on_runner, lambda root: root | beam.Create(samples) | WriteDataset(tmp_path / "written", **SETTINGS))
    assert hashes(tmp_path / "written") == hashes(tmp_path / "built")
    assert open_dataset(tmp_path / "written").verify() == []
    assert (tmp_path / "written/report.html").exists()
    assert not (tmp_path / "written/.build").exists()


@night
@pytest.mark.parametrize("scheme", buckets.SCHEMES)
def test_versions_of_the_samples_of_a_pipeline_in_a_bucket(scheme, photos, tmp_path):
    samples, root = make_samples(photos), f"{scheme}://datasets/written"
    build(input=lambda: iter(samples), output=tmp_path / "built", quiet=True, **SETTINGS)
    with buckets.services(tmp_path, scheme):
        for _ in range(2):
            with beam.Pipeline("DirectRunner") as pipeline:
                _ = pipeline | beam.Create(samples) | WriteDataset(root, versioned=True, **SETTINGS)
        dataset = open_dataset(root)
        assert dataset.shards == open_dataset(tmp_path / "built").shards
        assert dataset.verify() == []
        names = {name.split("/")[0] for name in buckets.files_of(root)}
    assert names == {dataset.path.rpartition("/")[2], "LATEST"}


@night
@on("spark", "flink_2")
def test_any_examples_of_a_pipeline(tmp_path, on_runner):
    records = [b"%d" % number * (number % 50) for number in range(1_000)]
    shards = WriteTFRecordShards(str(tmp_path / "out/any"), num_shards=3)
    run_there(on_runner, lambda root: root | beam.Create(records) | beam.Reshuffle() | shards)
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == [f"any.tfrecord-{number:05d}-of-00003" for number in range(3)]
    assert sorted(record for file in files for record in records_of(file)) == sorted(records)


# What dies


@night
@on("prism", "spark", "flink_2")
def test_crashes_and_hangs_cost_their_samples_alone(photos, tmp_path, run, monkeypatch, on_runner):
    hostile = make_hostile(monkeypatch, crash="*_0[23].jpg", hang="cat/cat_01.jpg")
    words = [f"--input={photos}", f"--output={tmp_path / 'out'}", "--image_size=64", "--max_failures=0.5"]
    more = [] if ON_PRISM[0] in on_runner else hostile
    ran = run("convert", *words, "--image_timeout=3", *on_runner, *more)
    assert ran.code == 0, ran.err
    assert ran.err.count("a new one resumes from the finished blocks") < 3
    crashed = [path.relative_to(photos).as_posix() for path in photos.glob("*/*_0[23].jpg")]
    expected = {**dict.fromkeys(crashed, "decoder_crash"), "cat/cat_01.jpg": "decode_timeout"}
    assert read_reasons(tmp_path / "out") == expected


@night
@on("prism", "spark")
def test_the_launcher_is_killed_and_its_job_ends_with_it(tmp_path, slow_photos, slow_hashes, run, on_runner):
    words = [f"--input={slow_photos}", *SLOW]
    running = ClusterBuild(tmp_path / "out", *words, *on_runner)
    finished = running.wait_for_open_blocks()
    started = processes.children(running.pid)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    processes.wait_until(lambda: not any(map(processes.is_running, started)), what="the end of the job server")
    assert run("status", f"--output={running.output}").out.startswith(f"{running.output}: dead\n")
    check(ClusterBuild(running.output, *words), finished, slow_hashes)


@night
def test_a_python_worker_of_spark_is_killed_and_the_job_submitted_again(tmp_path, slow_photos, slow_hashes):
    running = ClusterBuild(tmp_path / "out", f"--input={slow_photos}", *SLOW, *ON_SPARK)
    finished = running.wait_for_open_blocks()
    job_server = next(child for child in processes.children(running.pid) if processes.children(child))
    os.kill(processes.children(job_server)[0], signal.SIGKILL)
    check(running, finished, slow_hashes, says="a new one resumes from the finished blocks")
    assert not processes.is_running(job_server)


@pytest.fixture
def on_job_server(tmp_path: Path) -> Iterator[list[str]]:
    """A job server that the user has started; Prism is one."""
    worker = {"command": str(PROGRAM.with_name("beam-tfrecords-worker"))}
    with prism_server(tmp_path) as endpoint:
        words = ["--runner=PortableRunner", f"--job_endpoint={endpoint}", "--environment_type=PROCESS"]
        yield [*words, f"--environment_config={json.dumps(worker)}"]


@night
def test_the_job_of_a_job_server_goes_on_without_its_launcher(tmp_path, slow_photos, slow_hashes, run, on_job_server):
    words = [f"--input={slow_photos}", *SLOW, *on_job_server]
    running = ClusterBuild(tmp_path / "out", *words)
    finished = running.wait_for_open_blocks()
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    found = json.loads(run("status", f"--output={running.output}", "--json").out)
    assert (found["state"], found["build"]["job"]["job_id"]) == ("running", "job-001")
    other = run("convert", f"--input={slow_photos}", f"--output={running.output}", "--image_size=8")
    assert (other.code, "the job of another build is writing to it" in other.err) == (4, True)
    check(ClusterBuild(running.output, *words), finished, slow_hashes, says="the job of this build runs already")


@night
def test_sigterm_cancels_the_job_of_a_job_server(tmp_path, slow_photos, run, on_job_server):
    running = ClusterBuild(tmp_path / "out", f"--input={slow_photos}", *SLOW, *on_job_server)
    running.wait_for_open_blocks()
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait().code == 143
    found = json.loads(run("status", f"--output={running.output}", "--json").out)
    assert (found["state"], found["build"]["why"]) == ("dead", ["job job-001 was cancelled"])
