"""A plain runner: the pipelines of this project over lists, in this process, in a quarter of the time of Beam's runner.

A stage is evaluated when it is added. The stages and their functions are the real ones; what Beam and the worker
processes do around them is left out, so tests of those are marked `local_runner`.
"""

from __future__ import annotations

import contextlib
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any
from unittest import mock

import apache_beam as beam
from apache_beam.internal.util import insert_values_in_args
from apache_beam.transforms import core
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.util import Reshuffle
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_tfrecords import Dataset, storage
from beam_tfrecords.beam_pipelines.build import finish
from beam_tfrecords.beam_pipelines.runners.local_runner import LocalRunner
from beam_tfrecords.dataset.files import REPORT
from beam_tfrecords.errors import BuildError, SampleError
from beam_tfrecords.transforms.blocks import guard, reuse
from beam_tfrecords.transforms.processes.stage import MapInProcesses
from beam_tfrecords.transforms.processes.worker import prepare_process
from beam_tfrecords.transforms.publishing import metadata

_WINDOWING = Windowing(GlobalWindows())
_open_pipeline, _create_runner = beam.Pipeline, LocalRunner.create
_inspect = core.get_function_args_defaults
_arguments: dict[CodeType, tuple[list[str], list[Any]]] = {}


def _arguments_of(function: Any) -> tuple[list[str], list[Any]]:
    """Returns what Beam reads from a signature, once for each method without defaults."""
    if not inspect.ismethod(function) or function.__defaults__:
        return _inspect(function)
    code = function.__code__
    if code not in _arguments:
        _arguments[code] = _inspect(function)
    return _arguments[code]


def _write_no_report(_: Any, dataset: Dataset, *, check: storage.Check) -> str:
    """Writes a page without content in the place of the report, which takes a tenth of the time of a small build."""
    check()
    path = storage.join(dataset.path, REPORT)
    storage.write_bytes(path, b"<!-- mark the test with `report` -->")
    return path


def _describe_nothing(*_: Any) -> bytes:
    """Takes the place of the description, which takes 7% of the time of a small build."""
    return b"{}"


# Functions, and not mocks, which count their calls: 5% of the time of a small build.
def _no_sync(_: int) -> None: ...


def _is_not_checked(_: Any) -> bool:
    return False


def _no_origin(*_: Any, **__: Any) -> list[str]:
    return []


@contextlib.contextmanager
def without_reports() -> Iterator[None]:
    """Within it, builds write no report, and nothing in the description for catalogs."""
    with (
        mock.patch.object(finish, "_write_report", _write_no_report),
        mock.patch.object(metadata, "write_croissant", _describe_nothing),
    ):
        yield


@contextlib.contextmanager
def plain_pipelines() -> Iterator[None]:
    """Within it, builds without arguments for Beam's local runner are run plainly."""
    with (
        mock.patch("apache_beam.Pipeline", _open),
        mock.patch.object(LocalRunner, "create", _create),
        # It ends the process, which is that of the tests.
        mock.patch.object(guard, "TimeLimit", contextlib.nullcontext),
        # No machine loses power while tests run.
        mock.patch("os.fsync", _no_sync),
        # What Beam checks of each function: that it can be pickled, and how it returns, from its source. It also
        # reads the signatures of a class each time, and the stack for messages about types.
        mock.patch("apache_beam.internal.pickler.roundtrip", lambda value: value),
        mock.patch("apache_beam.transforms.core._check_fn_use_yield_and_return", _is_not_checked),
        mock.patch("apache_beam.transforms.core.get_function_args_defaults", _arguments_of),
        mock.patch("apache_beam.typehints.decorators.IOTypeHints._make_origin", _no_origin),
    ):
        yield


def _create(runner: LocalRunner, options: Any) -> Any:
    is_plain = runner.processes and runner.arguments.given["direct_num_workers"] is None
    return PlainPipeline() if is_plain else _create_runner(runner, options)


def _open(runner: Any = None, options: Any = None, **named: Any) -> Any:
    return PlainPipeline() if isinstance(runner, PlainPipeline) else _open_pipeline(runner, options, **named)


class Elements(beam.PCollection):
    """The elements of a collection."""

    def __init__(self, pipeline: PlainPipeline, elements: Iterable[Any]) -> None:
        super().__init__(pipeline, windowing=_WINDOWING)
        self.elements = list(elements)


class PlainPipeline:
    """Takes the place of `beam.Pipeline`, and of its runner, its first collection and its result."""

    def __init__(self) -> None:
        self.pipeline = self.runner = self
        self.options = None

    def __or__(self, transform: beam.PTransform) -> Any:
        return self.apply(transform, self)

    def apply(self, transform: Any, inputs: Any, label: str | None = None) -> Any:
        """Called by Beam's operators."""
        transform = getattr(transform, "transform", transform)  # without its name
        for kind, evaluate in _PRIMITIVES.items():
            if isinstance(transform, kind):
                return Elements(self, evaluate(transform, inputs))
        return transform.expand(inputs)

    def run(self) -> PlainPipeline:
        return self

    def wait_until_finish(self) -> None:
        # A worker process does not outlive its build, and neither do the indices that it has read.
        reuse._read_index.cache_clear()
        reuse._shards_by_split.cache_clear()


def _map_in_processes(transform: Any, inputs: Elements) -> Iterator[Any]:
    prepare_process()
    for element in inputs.elements:
        try:
            yield transform._function(element, **transform._named)
        except (SampleError, BuildError):
            raise
        except Exception as error:  # as `Worker` passes it on
            raise RuntimeError(traceback.format_exc()) from error


def _par_do(transform: beam.ParDo, inputs: Elements) -> Iterator[Any]:
    sides = [side._from_runtime_iterable(side.pvalue.elements, {}) for side in transform.side_inputs]
    arguments, named = insert_values_in_args(transform.args, transform.kwargs, sides)
    function = transform.fn
    function.setup()
    function.start_bundle()
    for element in inputs.elements:
        yield from function.process(element, *arguments, **named) or ()
    rest = function.finish_bundle() or ()
    yield from (value.value if isinstance(value, WindowedValue) else value for value in rest)
    function.teardown()


def _group(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _co_group(_: Any, inputs: dict[str, Elements]) -> Iterator[Any]:
    groups = {name: _group(pairs.elements) for name, pairs in inputs.items()}
    for key in dict.fromkeys(key for group in groups.values() for key in group):
        yield key, {name: group.get(key, []) for name, group in groups.items()}


def _combine(transform: beam.CombineGlobally, inputs: Elements) -> Iterator[Any]:
    if inputs.elements or transform.has_defaults:
        yield beam.CombineFn.maybe_from_callable(transform.fn).apply(inputs.elements)


_PRIMITIVES: dict[type, Callable[[Any, Any], Iterable[Any]]] = {
    MapInProcesses: _map_in_processes,
    beam.Create: lambda create, _: create.values,
    beam.Impulse: lambda *_: [b""],
    beam.Flatten: lambda _, inputs: [element for each in inputs for element in each.elements],
    Reshuffle: lambda _, inputs: inputs.elements,
    beam.GroupByKey: lambda _, inputs: _group(inputs.elements).items(),
    beam.CoGroupByKey: _co_group,
    beam.CombinePerKey: lambda combine, inputs: (
        (key, combine.fn.apply(values)) for key, values in _group(inputs.elements).items()
    ),
    beam.CombineGlobally: _combine,
    beam.ParDo: _par_do,
}
