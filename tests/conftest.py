"""Commands run in this process: plainly, by the local runner that users get, or by Beam's own workers."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import gc
import io
import os
import signal
import unittest.mock
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck

from beam_tfrecords.beam_pipelines.messages import progress
from beam_tfrecords.errors import RequestError
from tests import rotation
from tests.each import Case, find_repeated, leaves_out_cases
from tests.plain_runner import plain_pipelines, without_reports
from tests.refusals import Refusal, RefusalSnapshot, expect

PHOTOS = Path(__file__).parent / "data/photos"
BEAM_WORKERS = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--beam_workers", action="store_true", help="build and verify in Beam's own worker processes")
    parser.addoption("--local_runner", action="store_true", help="run no pipeline plainly")
    parser.addoption(
        "--exhaustive", action="store_true", help="run the tests and combinations that `make test` leaves out"
    )
    rotation.add_options(parser)
    parser.addoption(
        "--update-refusals", action="store_true", help="write the messages that tests see to tests/data/refusals.json"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "any_workers: a stage; run plainly with `--few` only; also run with `-m any_workers --beam_workers`"
    )
    config.addinivalue_line("markers", "local_runner: about runners, workers or their processes; not run plainly")
    config.addinivalue_line("markers", "slow: takes 0.2 s or more of a processor; `--few` runs a fifth of such tests")
    config.addinivalue_line(
        "markers", "report: looks at report.html or croissant.json, which builds of others do not write"
    )
    config.addinivalue_line("markers", "exhaustive: run with `--exhaustive` alone")
    config.addinivalue_line("markers", "every_value: fewer combinations; each value of each parameter is in one")
    config.addinivalue_line("markers", "every_pair: fewer combinations; each two values of two parameters are in one")
    config.addinivalue_line("markers", "sampled(count): so many combinations")
    config.addinivalue_line("markers", "many: cases that are alike, or of minutes; `--share` runs some each day")
    config.pluginmanager.register(RefusalSnapshot(config))
    # On a busy machine a small build takes more than ten seconds. The line of progress that comes then stays out of
    # what tests compare; where tests start a program, `without_progress` leaves it out.
    progress._LOG_SECONDS = 3600.0
    # A shell ignores Ctrl-C in what it starts in the background, and so would the programs that tests start and end.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.register_profile(
        "ours",
        # How long an example takes depends on what else the machine does.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=100 if config.getoption("exhaustive") else 15,
    )
    hypothesis.settings.load_profile("ours")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects `exhaustive` tests, and combinations of parameters that `every_…` and `sampled` do without.

    With `--few`, it deselects most slow tests, and most cases of tests that have many, too. With `--exhaustive`, it
    deselects what both run, except what `runs_twice`.
    """
    left_out = {item for item in items if item.get_closest_marker("exhaustive")}
    single = [item for item in items if not is_loop(item)]
    left_out.update(find_repeated_items(single, marker="every_value", size=1))
    left_out.update(find_repeated_items(single, marker="every_pair", size=2))
    left_out.update(find_unsampled(single))
    others: set[pytest.Item] = set()
    if config.getoption("few") or config.getoption("exhaustive"):
        others = rotation.find_others([item for item in single if item not in left_out], config)
        left_out |= others
    if config.getoption("exhaustive"):
        left_out = {item for item in items if item not in left_out and not runs_twice(item)}
    # The other cases of tests that have many take milliseconds each; `--share` is for what takes longer.
    whole = {item for item in others if not item.get_closest_marker("slow")}
    left_out.update(rotation.find_undrawn([item for item in items if item not in left_out | whole], config))
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.scheduling import ModuleScheduling

    return ModuleScheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if line := rotation.describe(config):
        terminalreporter.write_line(line)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends a process of xdist, which has sent its results, without the seconds that it takes to free its memory."""
    if hasattr(config, "workerinput"):
        atexit._run_exitfuncs()
        os._exit(0)


def runs_twice(item: pytest.Item) -> bool:
    """Whether `--exhaustive` runs a test of `make test` again: with more examples, other cases or in workers."""
    has_others = is_loop(item) and leaves_out_cases(item)
    return is_property(item) or has_others or item.get_closest_marker("any_workers") is not None


def is_loop(item: pytest.Item) -> bool:
    """Whether a test runs its cases itself."""
    return isinstance(item, pytest.Function) and hasattr(item.function, "loop")


def is_property(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and hypothesis.is_hypothesis_test(item.function)


def find_repeated_items(items: Iterable[pytest.Item], *, marker: str, size: int) -> Iterator[pytest.Item]:
    """The items of which all combinations of so many parameters are in other items."""
    combined = [item for item in items if isinstance(item, pytest.Function) and item.get_closest_marker(marker)]
    functions: dict[object, dict[pytest.Item, Case]] = {}
    for item in mixed(combined):
        functions.setdefault(item.function, {})[item] = item.callspec.params
    for cases in functions.values():
        yield from find_repeated(cases, size=size)


def find_unsampled(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The items beyond the number that `sampled` names."""
    sampled = [item for item in items if isinstance(item, pytest.Function) and item.get_closest_marker("sampled")]
    seen: Counter[object] = Counter()
    for item in mixed(sampled):
        seen[item.function] += 1
        if seen[item.function] > item.get_closest_marker("sampled").args[0]:
            yield item


def mixed(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Items in an order that mixes their parameters, and is the same in every process."""
    return sorted(items, key=lambda item: zlib.crc32(item.nodeid.encode()))


def pytest_collection_finish() -> None:
    # Imported modules stay: the collector needs half a second to go through them. Later, it finds little to free.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


_INTEGRATION = Path(__file__).parent / "integration"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Fixtures of a whole session are in it too."""
    option, marker = item.config.getoption, item.get_closest_marker
    in_workers = marker("local_runner") or (marker("any_workers") and not option("few"))
    is_plain = not (in_workers or option("beam_workers") or option("local_runner"))
    with contextlib.ExitStack() as patches:
        if is_plain:
            patches.enter_context(plain_pipelines())
        is_real = item.path.is_relative_to(_INTEGRATION) or option("exhaustive") or option("beam_workers")
        if not (marker("report") or is_real):
            patches.enter_context(without_reports())
        return (yield)


@dataclasses.dataclass(frozen=True)
class Ran:
    """How a command ended.

    Attributes:
      code: its exit code.
      out: what it has printed.
      err: the same, to stderr.
      refusal: what is wrong with the request; None if nothing is.
    """

    code: int
    out: str
    err: str
    refusal: RequestError | None = None

    def refused(self, refusal: str | Refusal, *settings: str, says: Collection[str] = ()) -> RequestError:
        """Asserts that the request was refused, in one line if there is no more to show; returns the refusal.

        Takes what `Refusal` takes, or one.
        """
        __tracebackhide__ = True
        assert self.code == 2, self.err
        assert self.refusal is not None, self.err
        if not (self.refusal.suggestions or "Traceback" in self.err):
            assert self.err.count("\n") == 1, self.err
        expect(refusal, *settings, says=says).check(self.refusal)
        return self.refusal


@functools.cache
def parse_once() -> None:
    """Makes Beam remember the signatures and options that it parses, which take 40% of the time of a small build.

    Programs that tests start as processes run without.
    """
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import userstate

    parse, parsed = userstate.get_dofn_specs, {}

    def get_dofn_specs(function: Any) -> Any:
        kind = type(function)
        if kind not in parsed:
            parsed[kind] = parse(function)
        return parsed[kind]

    userstate.get_dofn_specs = get_dofn_specs
    PipelineOptions.view_as = functools.lru_cache(maxsize=256)(PipelineOptions.view_as)


def run_command(*words: Any) -> Ran:
    from beam_tfrecords.beam_pipelines.commands.cli import main
    from beam_tfrecords.beam_pipelines.settings import suggested_commands

    parse_once()
    out, err = io.StringIO(), io.StringIO()
    refusals: list[RequestError] = []
    explain = suggested_commands.explain

    def noted(error: RequestError, *arguments: Any) -> list[str]:
        refusals.append(error)
        return explain(error, *arguments)

    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        unittest.mock.patch.object(suggested_commands, "explain", noted),
    ):
        code = main([str(word) for word in words])
    return Ran(code, out.getvalue(), err.getvalue(), next(iter(refusals), None))


@pytest.fixture(scope="session")
def photos() -> Path:
    """42 real photos in seven folders."""
    return PHOTOS


@pytest.fixture(scope="session")
def beam_workers(request) -> tuple[str, ...]:
    """Beam's arguments for its own workers with `--beam_workers`, else none."""
    return BEAM_WORKERS if request.config.getoption("beam_workers") else ()


@pytest.fixture
def count_parts(monkeypatch) -> Callable[[], list[int]]:
    """From its call on, the parts in which workers list an input are counted: one number for each listing."""
    from beam_tfrecords.beam_pipelines.build.listing.executors import WorkerExecutor

    index = WorkerExecutor.index

    def count() -> list[int]:
        counts: list[int] = []

        def counted(executor, parts, *arguments):
            counts.append(len(parts))
            index(executor, parts, *arguments)

        monkeypatch.setattr(WorkerExecutor, "index", counted)
        return counts

    return count


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
