"""How a failed pipeline ends: every runner's error is one line and exit code 1, and only `_SUCCESS` is success."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.dataflow.dataflow_runner import DataflowRuntimeException
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner

from beam_tfrecords.beam_pipelines.runners import worker
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.runners.portable_runner import ended_with_us
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.processes.worker import usable_cores
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from tests.integration.servers.processes import is_running

ROOT = Path(__file__).parents[3]
FLAGS = ["--name=pets", "--image_size=8"]


@pytest.mark.parametrize(
    ("words", "modules"),
    [([], {"local_runner"}), (["--runner=FlinkRunner"], {"flink_runner", "portable_runner"})],
)
def test_only_the_runner_that_is_asked_for_is_imported(words, modules):
    code = (
        "import sys\n"
        "from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner\n"
        "find_runner(sys.argv[1:])\n"
        "print(*(name.rpartition('.')[2] for name in sys.modules if name.endswith('_runner')))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert {*ran.stdout.split()} == {"find_runner", *modules}


class FailingRunner(PipelineRunner):
    """Fails as runners do, after the pipeline was handed over."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run_pipeline(self, pipeline, options):
        raise self._error


def execute_on(name: str, beam_runner: PipelineRunner) -> Execution:
    """An execution on this runner of Beam in place of its own."""
    runner = find_runner([f"--runner={name}"])
    runner.complete, runner.create = list, lambda options: beam_runner
    return Execution(runner)


def run(runner, function=str):
    execution = execute_on("PrismRunner", runner)
    execution.run(lambda root: root | beam.Create([1]) | "Divide" >> beam.Map(function))


def divide(number: int) -> float:
    return number / 0


def break_build(_: int) -> None:
    raise BuildError("gs://bucket does not answer")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            DataflowRuntimeException("Dataflow pipeline failed. State: FAILED, Error:\nThe job was stopped.\n", None),
            "The job",
        ),
        (
            RuntimeError("Pipeline job-1 failed in state FAILED: no slots"),
            "Pipeline job-1 failed in state FAILED: no slots",
        ),
        (TimeoutError(), "timeout"),
        (ConnectionError("no route to host"), "no route to host"),
    ],
)
def test_an_error_of_a_runner_is_one_line(error, line):
    with pytest.raises(BuildError, match=f"^{line}.*$") as raised:
        run(FailingRunner(error))
    assert "\n" not in str(raised.value)


def test_a_bug_in_a_worker_is_named_in_one_line():
    with pytest.raises(BuildError, match=r"^division by zero \(`verbose` shows more\)$"):
        run(FnApiRunner(), divide)


def lose_the_disk(_: object) -> None:
    raise OSError(errno.EIO, "Input/output error", "out/file")


def test_a_service_fault_in_a_worker_says_what_to_do():
    said = r"^Input/output error: 'out/file'; the same command resumes once this is fixed$"
    with pytest.raises(BuildError, match=said):
        run(FnApiRunner(), lose_the_disk)


def test_an_error_of_the_build_keeps_its_message():
    with pytest.raises(BuildError, match=r"^gs://bucket does not answer$"):
        run(FnApiRunner(), break_build)


@pytest.mark.parametrize(
    ("markers", "attempts"),
    [(None, 1), ([], 1), (["a.started", "a.json"], 1), (["a.started"], 2), (["a.started", "a.json", "b.started"], 2)],
)
def test_a_job_that_lost_a_worker_in_a_block_is_submitted_again_with_child_processes(tmp_path, markers, attempts):
    folder = BuildFolder(str(tmp_path))
    # Without a worker, nobody makes the folder.
    if markers is not None:
        (tmp_path / "blocks").mkdir()
    for name in markers or ():
        (tmp_path / "blocks" / name).touch()
    tried = []

    class LosesItsWorkers(PipelineRunner):
        def run_pipeline(self, pipeline, options):
            tried.append(os.path.exists(folder.unfinished))
            raise RuntimeError("a worker died")

    execution = execute_on("SparkRunner", LosesItsWorkers())
    with pytest.raises(BuildError, match="a worker died"):
        execution.run(lambda root: root | beam.Create([1]), str(tmp_path))
    assert tried == [False, True][:attempts]


def test_a_pipeline_that_ends_without_publishing_is_not_a_success(photos, tmp_path, convert, monkeypatch):
    monkeypatch.setattr(Execution, "run", lambda *_, **__: None)
    ran = convert(f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert f"{tmp_path / 'out'} holds no dataset of this build" in ran.err


def test_the_dataset_that_was_to_be_replaced_is_not_a_success(photos, tmp_path, convert, build, monkeypatch):
    words = [f"--input={photos}", *FLAGS]
    out = build(tmp_path / "out", *words)
    monkeypatch.setattr(Execution, "run", lambda *_, **__: None)
    assert convert(f"--output={out}", *words, "--overwrite").code == 1
    assert (out / "_SUCCESS").exists()


def test_a_runner_that_fails_after_it_has_published_is_a_success(photos, tmp_path, convert, monkeypatch):
    run_pipeline = Execution.run

    def run_and_fail(*arguments, **options):
        run_pipeline(*arguments)
        raise BuildError("the connection to the cluster was lost")

    monkeypatch.setattr(Execution, "run", run_and_fail)
    ran = convert(f"--input={photos}", f"--output={tmp_path / 'out'}", *FLAGS)
    assert ran.code == 0
    assert (tmp_path / "out/_SUCCESS").exists()


@pytest.mark.parametrize("error", [OSError(errno.EIO, "disk"), BuildError("gs://bucket does not answer")])
def test_progress_goes_on_after_an_error_of_the_storage(tmp_path, monkeypatch, error):
    import io
    import time

    from beam_tfrecords.beam_pipelines.messages import progress

    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.02)
    read, calls = progress.read_block_counts, []

    def read_sometimes(folder):
        calls.append(None)
        if len(calls) < 4:
            raise error
        return read(folder)

    monkeypatch.setattr(progress, "read_block_counts", read_sometimes)
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers/a.json").write_text('{"blocks": 1, "written": 5, "failed": 0}')
    (tmp_path / "workers/b.json").write_text("")  # emptied by a power cut
    stream = io.StringIO()
    with progress.Progress(str(tmp_path), total=10, stream=stream):
        time.sleep(0.4)
    assert "5 of 10 samples" in stream.getvalue()


@pytest.mark.parametrize(
    ("words", "modules", "processes"),
    [
        ([], ["beam_tfrecords.storage.local"], 2 * usable_cores()),
        ([], [], usable_cores()),
        (["--direct_num_workers=3"], ["beam_tfrecords.storage.local"], 3),
    ],
)
def test_a_core_has_two_processes_where_one_waits_for_a_store(words, modules, processes):
    runner = find_runner(words)
    runner.start_workers(*modules)
    assert runner.processes == processes


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_companions_end_with_a_launcher_that_is_killed(tmp_path):
    script = (
        "import subprocess, time\n"
        "from beam_tfrecords.beam_pipelines.runners.portable_runner import ended_with_us\n"
        "from beam_tfrecords.transforms.processes.descendants import find_children\n"
        "before = find_children()\n"
        "started = subprocess.Popen(['sleep', '600'])\n"
        "assert find_children() - before == {started.pid}\n"
        "with ended_with_us(find_children()):\n"
        "    print(started.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT) as launcher:
        assert launcher.stdout
        companion = int(launcher.stdout.readline())
        launcher.kill()
    wait_until(lambda: not is_running(companion))


def test_companions_of_a_job_that_has_ended_are_let_alone():
    with subprocess.Popen(["sleep", "600"]) as companion:
        with ended_with_us([companion.pid]):
            pass
        assert is_running(companion.pid)
        companion.kill()


@pytest.mark.parametrize("missing", ["--id", "--provision_endpoint"])
def test_a_worker_is_told_who_it_is_and_whom_to_ask(missing, capsys):
    given = {"--id": "1-1", "--provision_endpoint": "localhost:1"}
    with pytest.raises(SystemExit):
        worker.main([word for name, value in given.items() if name != missing for word in (name, value)])
    assert f"required: {missing}" in capsys.readouterr().err
