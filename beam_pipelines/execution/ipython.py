"""Lets a pipeline run in IPython and Jupyter as it does elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hide_ipython() -> Iterator[None]:
    """Hides IPython from Beam in the block.

    Beam would load its extra `interactive` with pandas, to rename the stages after notebook cells, and fail without it.
    """
    if "IPython" not in sys.modules:
        yield
        return
    from apache_beam import pipeline
    from apache_beam.utils import interactive_utils

    found = pipeline.is_in_ipython
    pipeline.is_in_ipython = interactive_utils.is_in_ipython = lambda: False
    try:
        yield
    finally:
        pipeline.is_in_ipython = interactive_utils.is_in_ipython = found
