"""Patches Beam while a pipeline is built and run, so that it works in notebooks and leaves the user's state alone."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

from beam_tfrecords.beam_pipelines.runners import beam_random


@contextlib.contextmanager
def without_notebooks() -> Iterator[None]:
    """Keeps Beam from naming stages after notebook cells, which fails without pandas if IPython is installed."""
    from apache_beam import pipeline
    from apache_beam.utils import interactive_utils

    with contextlib.ExitStack() as stack:
        for module in (pipeline, interactive_utils):
            stack.callback(setattr, module, "is_in_ipython", module.is_in_ipython)
            module.is_in_ipython = lambda: False
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
