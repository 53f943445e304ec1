"""Commands run in this process: plainly, by the local runner that users get, or by Beam's own workers."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck

from tests.core.commands import Ran, run_command, show_no_progress
from tests.core.listing_ways import count_parts, in_job, in_parts
from tests.core.plain_runner import plain_pipelines, without_reports
from tests.core.refusal_snapshot import RefusalSnapshot

__all__ = ["count_parts", "in_job", "in_parts"]

PHOTOS = (Path(__file__).parent / "data/photos").resolve()
BEAM_WORKERS = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
MARKS = (
    "nightly: takes too long for every commit; `make test-nightly` runs it",
    "tensorflow: imports TensorFlow, so `make test` runs it in a process of its own",
    "any_workers: a stage; `make test-nightly` also runs it with `--beam_workers`",
    "local_runner: about runners, workers or their processes; not run plainly",
    "report: looks at report.html or croissant.json, which builds of others do not write",
)
# How long an example takes depends on what else the machine does. What the gate tries depends on the commit alone.
_PROFILE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
hypothesis.settings.register_profile("gate", max_examples=15, derandomize=True, **_PROFILE)
hypothesis.settings.register_profile("nightly", max_examples=100, print_blob=True, **_PROFILE)
hypothesis.settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--beam_workers", action="store_true", help="build and verify in Beam's own worker processes")
    parser.addoption("--local_runner", action="store_true", help="run no pipeline plainly")
    parser.addoption(
        "--update-refusals", action="store_true", help="write the messages that tests see to tests/data/refusals.json"
    )


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    config.pluginmanager.register(RefusalSnapshot(config))
    show_no_progress()
    # A shell ignores Ctrl-C in what it starts in the background, and so would the programs that tests start and end.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Fails in CI what skips because this machine lacks a part: such a skip says `needs ...`."""
    report = yield
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    if os.environ.get("CI") and "needs " in reason:
        report.outcome, report.longrepr = "failed", reason
    return report


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends a process of xdist, which has sent its results, without the seconds that it takes to free its memory."""
    if hasattr(config, "workerinput"):
        atexit._run_exitfuncs()
        os._exit(0)


def pytest_collection_finish() -> None:
    # Imported modules stay: the collector needs half a second to go through them. Later, it finds little to free.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


_INTEGRATION = Path(__file__).parent / "integration"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Fixtures of a whole session are in it too."""
    option, marker = item.config.getoption, item.get_closest_marker
    is_plain = not (marker("local_runner") or option("beam_workers") or option("local_runner"))
    with contextlib.ExitStack() as patches:
        if is_plain:
            patches.enter_context(plain_pipelines())
        is_real = item.path.is_relative_to(_INTEGRATION) or marker("nightly") or option("beam_workers")
        if not (marker("report") or is_real):
            patches.enter_context(without_reports())
        return (yield)


@pytest.fixture(scope="session")
def photos() -> Path:
    """42 real photos in seven folders."""
    return PHOTOS


@pytest.fixture(scope="session")
def beam_workers(request) -> tuple[str, ...]:
    """Beam's arguments for its own workers with `--beam_workers`, else none."""
    return BEAM_WORKERS if request.config.getoption("beam_workers") else ()


@pytest.fixture(scope="session")
def run() -> Callable[..., Ran]:
    """Runs a command line."""
    return run_command


@pytest.fixture(scope="session")
def convert(beam_workers) -> Callable[..., Ran]:
    """Runs `convert` with flags."""
    return lambda *words: run_command("convert", *words, *beam_workers)


@pytest.fixture(scope="session")
def verify(beam_workers) -> Callable[..., Ran]:
    """Runs `verify` on a dataset, with flags."""
    return lambda path, *words: run_command("verify", f"--dataset={path}", *words, *beam_workers)


@pytest.fixture(scope="session")
def build(convert) -> Callable[..., Path]:
    """Builds a dataset from an output folder and flags; returns the folder."""

    def build_dataset(output: Path, *words: Any) -> Path:
        ran = convert(f"--output={output}", *words)
        assert ran.code == 0, ran.err
        return output

    return build_dataset
