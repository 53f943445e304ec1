"""Patches Beam while a pipeline is built and run: speeds up slow functions, and protects the user's state."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from beam_tfrecords.beam_pipelines.runners import beam_random


@contextlib.contextmanager
def asked_once() -> Iterator[None]:
    """Caches values in Beam that do not change while a pipeline is built and run.

    For one of our pipelines, Beam parses all its flags 460 times and inspects each DoFn 7 times for state and timers,
    which takes two thirds of the time to build and start the pipeline. If IPython is installed, Beam also imports it,
    and loads its extra `interactive` with pandas to name stages after notebook cells, or fails without pandas.
    """
    from apache_beam import pipeline
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.transforms import userstate
    from apache_beam.utils import interactive_utils

    with contextlib.ExitStack() as stack:

        def replace(owner: Any, name: str, value: Callable[..., Any]) -> None:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        # All views of the same options share their values.
        replace(PipelineOptions, "view_as", _once(PipelineOptions.view_as, lambda options: options._all_options))
        replace(userstate, "get_dofn_specs", _once(userstate.get_dofn_specs, lambda function: function))
        for module in (pipeline, interactive_utils):
            replace(module, "is_in_ipython", lambda: False)
        yield


@contextlib.contextmanager
def with_own_random_numbers() -> Iterator[None]:
    """Makes Beam's modules use `beam_random` instead of `random`."""
    # Imports this module first, because modules imported later would still use `random`.
    import apache_beam.runners.portability.fn_api_runner  # noqa: F401

    modules = [module for name, module in list(sys.modules.items()) if name.startswith("apache_beam.")]
    with contextlib.ExitStack() as stack:
        for module in modules:
            if vars(module).get("random") is random:
                stack.callback(setattr, module, "random", random)
                setattr(module, "random", beam_random)  # noqa: B010
        yield


def _once(function: Callable[..., Any], subject_of: Callable[[Any], Any]) -> Callable[..., Any]:
    """Caches a function by the identity of the subject of its first argument, and by its other arguments."""
    # Keeps a reference to the subject, so that no other object can get the same id.
    known: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def call(first: Any, *others: Any) -> Any:
        subject = subject_of(first)
        key = (id(subject), *others)
        if key not in known:
            known[key] = subject, function(first, *others)
        return known[key][1]

    return call
