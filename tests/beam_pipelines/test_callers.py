"""A build leaves the program that calls it as it was: its log, its random numbers; and it says where it cannot run."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import beam_tfrecords
from tests.trees import write_tree

SETTINGS = {"image_size": 16, "quiet": True, "report": False}
ROOT = Path(__file__).parents[2]
STEPS = """
import logging

def keep(sample):
    for level in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger("steps.of.mine").log(level, "saw %s", sample.key)
    print("printed", sample.key)
    return sample
"""


@pytest.fixture
def pets(tmp_path) -> str:
    return str(write_tree(tmp_path / "pets", "{cat,dog}/{0..2}.png"))


def run_program(program: str, *arguments: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.nightly
def test_what_another_thread_logs_during_import_and_build_arrives(pets, tmp_path):
    program = """
        import logging, sys, threading
        counts = {level: 0 for level in (logging.DEBUG, logging.INFO, logging.WARNING)}
        logged, foreign = dict(counts), []

        class Count(logging.Handler):
            def emit(self, record):
                if record.name == "mine":
                    counts[record.levelno] += 1
                elif not record.name.startswith("beam_tfrecords"):
                    foreign.append(record.name)

        root = logging.getLogger()
        root.addHandler(Count())
        logging.getLogger("mine").setLevel(logging.DEBUG)
        end = threading.Event()

        def log():
            while not end.wait(0.001):
                for level in logged:
                    logging.getLogger("mine").log(level, "mine")
                    logged[level] += 1

        thread = threading.Thread(target=log)
        thread.start()
        import beam_tfrecords
        for number in range(2):
            output = f"{sys.argv[2]}/{number}"
            beam_tfrecords.build(input=sys.argv[1], output=output, image_size=16, quiet=True, report=False)
        beam_tfrecords.verify(f"{sys.argv[2]}/0")
        end.set()
        thread.join()
        assert counts == logged and logged[logging.INFO] > 50, (counts, logged)
        assert (root.level, root.manager.disable, len(root.handlers)) == (logging.WARNING, 0, 1), vars(root)
        assert logging.getLogger("apache_beam").level == logging.NOTSET
        assert not foreign, foreign
    """
    ran = run_program(program, pets, tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_what_the_program_decides_is_logged_by_its_own_loggers(pets, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    beam_tfrecords.build(input=pets, output=tmp_path / "out", **SETTINGS)
    ours = [record for record in caplog.records if record.name.startswith("beam_tfrecords.")]
    assert {record.levelno for record in ours} <= {logging.DEBUG, logging.INFO}
    text = "\n".join(record.getMessage() for record in ours if record.levelno == logging.INFO)
    for part in ("listed 6 samples", "converting 6 samples in", f"{tmp_path}/out is published"):
        assert part in text, text
    assert not [record.name for record in caplog.records if record.name.startswith("apache_beam")]
    caplog.clear()
    beam_tfrecords.build(input=pets, output=tmp_path / "new", **SETTINGS, verbose=True)
    assert [record.name for record in caplog.records if record.name.startswith("apache_beam")]


def test_a_level_that_the_program_has_set_for_beam_stays(pets, tmp_path, caplog):
    caplog.set_level(logging.INFO, "apache_beam")
    beam_tfrecords.build(input=pets, output=tmp_path / "out", **SETTINGS)
    assert logging.getLogger("apache_beam").level == logging.INFO


@pytest.mark.local_runner
def test_a_map_function_logs_and_prints_by_this_process(pets, tmp_path, caplog, capsys, monkeypatch):
    (tmp_path / "logging_steps.py").write_text(STEPS)
    monkeypatch.syspath_prepend(str(tmp_path))
    caplog.set_level(logging.INFO, "steps")
    beam_tfrecords.build(input=pets, output=tmp_path / "out", map="logging_steps:keep", **SETTINGS)
    found = {(record.levelname, record.getMessage()) for record in caplog.records if record.name == "steps.of.mine"}
    keys = [f"{name}/{number}.png" for name in ("cat", "dog") for number in range(3)]
    assert found == {(level, f"saw {key}") for level in ("INFO", "WARNING") for key in keys}
    assert {f"printed {key}" for key in keys} <= set(capsys.readouterr().out.splitlines())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("flag", "levels"),
    [("--verbose", {"INFO", "WARNING"}), pytest.param("--quiet", {"WARNING"}, marks=pytest.mark.nightly)],
)
def test_the_program_shows_what_a_map_function_logs_with_its_name_and_level(pets, tmp_path, flag, levels):
    (tmp_path / "logging_steps.py").write_text(STEPS)
    program = "from beam_tfrecords.beam_pipelines.commands.cli import run; run()"
    words = ["convert", f"--input={pets}", f"--output={tmp_path / 'out'}", "--map=logging_steps:keep", "--no_report"]
    ran = run_program(program, *words, flag, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    shown = {line.partition(": ")[0] for line in ran.stderr.splitlines() if "steps.of.mine" in line}
    assert shown == {f"{level} steps.of.mine" for level in levels}


@pytest.mark.local_runner
def test_a_build_draws_none_of_the_random_numbers_of_its_caller(pets, tmp_path):
    random.seed(7)
    np.random.seed(7)
    before, before_numpy = random.getstate(), np.random.get_state()
    drawn = []
    end = threading.Event()
    thread = threading.Thread(target=lambda: drawn.extend(random.random() for _ in iter(lambda: end.wait(0.001), True)))
    thread.start()
    beam_tfrecords.build(input=pets, output=tmp_path / "out", **SETTINGS)
    end.set()
    thread.join()
    state = random.getstate()
    random.setstate(before)
    assert drawn == [random.random() for _ in drawn]
    assert random.getstate() == state
    assert str(np.random.get_state()) == str(before_numpy)


@pytest.mark.nightly
@pytest.mark.local_runner
def test_a_fork_and_a_daemonic_process_build_as_their_parent_does(pets, tmp_path):
    def build(name: str) -> list[bytes]:
        beam_tfrecords.build(input=pets, output=tmp_path / name, **SETTINGS)
        return [path.read_bytes() for path in sorted((tmp_path / name).glob("*.tfrecord*"))]

    expected = build("parent")
    child = os.fork()
    if not child:
        code = 1
        try:
            code = int(build("fork") != expected)
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    process = multiprocessing.get_context("fork").Process(target=build, args=("daemon",), daemon=True)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert build("again") == expected


AT_EXIT = """
import sys, threading
import beam_tfrecords
{prepare}
def build():
    try:
        beam_tfrecords.build(input=sys.argv[1], output=sys.argv[2], image_size=16, quiet=True)
    except (beam_tfrecords.BuildError, beam_tfrecords.RequestError) as error:
        print(f"{{type(error).__name__}}: {{error}}")
{start}
"""


@pytest.mark.parametrize("prepare", ["", "beam_tfrecords.build"], ids=["new", "imported"])
@pytest.mark.parametrize(
    "start",
    [
        "import atexit; atexit.register(build)",
        "threading.Thread(target=lambda: (threading.main_thread().join(), build())).start()",
    ],
    ids=["atexit", "thread"],
)
def test_a_build_while_python_exits_is_refused_in_one_sentence(pets, tmp_path, prepare, start):
    ran = run_program(AT_EXIT.format(prepare=prepare, start=start), pets, tmp_path / "out")
    assert ran.stderr == ""
    assert ran.stdout.count("\n") == 1, ran.stdout
    assert "Error: Python is exiting and cannot start threads; call this before" in ran.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.nightly
def test_in_a_deleted_working_folder_absolute_paths_work_and_others_are_refused(pets, tmp_path):
    program = """
        import os, sys
        import beam_tfrecords
        os.mkdir(sys.argv[2])
        os.chdir(sys.argv[2])
        os.rmdir(sys.argv[2])
        settings = {"input": sys.argv[1], "image_size": 16, "quiet": True, "report": False}
        beam_tfrecords.build(output=sys.argv[3], **settings)
        try:
            beam_tfrecords.build(output="out", **settings)
        except beam_tfrecords.RequestError as error:
            print(error)
    """
    ran = run_program(program, pets, tmp_path / "deleted", tmp_path / "out")
    assert ran.stderr == ""
    assert ran.stdout == (
        "out is in the working folder, which has been deleted; go to another folder, or give absolute paths\n"
    )
