"""Commands in the process of the tests, and what tests replace around them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import unittest.mock
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from beam_tfrecords import extras
from beam_tfrecords.beam_pipelines.messages import progress
from beam_tfrecords.beam_pipelines.settings import suggested_commands
from beam_tfrecords.errors import RequestError
from tests.refusals import Refusal, expect

install_release = extras.install_release


@contextlib.contextmanager
def released_as(wheel: Path) -> Iterator[None]:
    """Lets commands that install the release take a wheel."""
    with unittest.mock.patch.object(extras, "RELEASED_AS", str(wheel)):
        yield


def show_no_progress() -> None:
    """Has programs in this process say nothing of their progress.

    On a busy machine a small build takes more than ten seconds. The line of progress that comes then stays out of what
    tests compare; where tests start a program, `without_progress` leaves it out.
    """
    progress._LOG_SECONDS = 3600.0


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


def run_there(arguments: Sequence[str], steps: Callable[[Any], Any]) -> None:
    """Runs a pipeline of the user with the options that `convert` finds out for these arguments."""
    from beam_tfrecords.beam_pipelines.runners.execution import Execution
    from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner

    Execution.prepare(find_runner(arguments), quiet=True).run(steps)
