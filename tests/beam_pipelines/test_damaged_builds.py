"""Damaged inputs of every source, built: the dataset has the rest and lists what failed, or one line says why not."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.core.commands import Ran
from tests.core.sources.test_mutated_files import _BYTES, _SECONDS, damageable, limited, mutate
from tests.each import each
from tests.writers import WRITERS, flags_of

__all__ = ["limited"]

FLAGS = (
    (),
    ("--allow_damaged_containers",),
    ("--splits=train=0.5,test=0.5", "--duplicates=drop"),
    ("--layout=image", "--image_encoding=keep"),
    ("--trust_annotations", "--invalid_boxes=drop", "--group_rows"),
)


def check(ran: Ran, output: Path) -> None:
    """Checks that a build has published all that it has listed, or has said in lines why not."""
    assert "Traceback" not in ran.err
    assert all(line.isprintable() for line in (ran.out + ran.err).splitlines())
    if ran.code == 0:
        manifest = manifest_of(output)
        failures = (output / "failures.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(list(map(json.loads, failures))) == manifest["failures"]
        assert not any("internal_error" in line for line in failures)
        assert not list(output.glob(".build/*/run.json"))
    else:
        assert ran.code in (1, 2, 3)
        assert ran.err.startswith("beam-tfrecords: ") or ran.code == 3
        assert not (output / "_SUCCESS").exists()


def started(process: int | str = "self") -> list[str]:
    """The processes that one has started and that still run."""
    try:
        return [one for path in Path(f"/proc/{process}/task").glob("*/children") for one in path.read_text().split()]
    except OSError:  # it has just ended
        return []


def left_over() -> list[str]:
    """Processes of builds that have ended; the server that forks workers stays as long as this one."""
    own = [one for one in started() if b"server.serve(" in Path(f"/proc/{one}/cmdline").read_bytes()]
    return [*(set(started()) - set(own)), *(child for one in own for child in started(one))]


def _try(name: str, folder: Path, run, *, seed: int, count: int) -> None:
    form, output = folder / "form", folder / "out"
    settings = WRITERS[name].make(form)
    files = damageable(form)
    words = ("convert", *flags_of(settings), f"--output={output}", "--image_size=16", "--no_report")
    assert run(*words).code == 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        chosen = random.Random(f"{name} {seed} {number}")
        path = chosen.choice(files)
        data = path.read_bytes()
        path.write_bytes(mutate(data, chosen))
        flags = chosen.choice(FLAGS)
        shutil.rmtree(output)
        signal.alarm(_SECONDS)
        try:
            check(run(*words, "--max_failures=1", *flags), output)
        except Exception as error:
            raise AssertionError(f"{name}, seed {seed}, number {number}, {path.name}, {flags}") from error
        finally:
            signal.alarm(0)
            path.write_bytes(data)
            output.mkdir(exist_ok=True)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024 < _BYTES
    deadline = time.monotonic() + 10
    while left_over():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.nightly
@pytest.mark.usefixtures("limited")
@each("name", WRITERS)
def test_a_build_of_a_damaged_input_is_published_or_ends_in_lines(name, tmp_path, run):
    _try(name, tmp_path, run, seed=30, count=1)


@pytest.mark.nightly
@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("name", WRITERS)
def test_1_000_builds_of_damaged_inputs_are_published_or_end_in_lines(name, tmp_path, run):
    _try(name, tmp_path, run, seed=31, count=1000 // len(WRITERS) + 1)
