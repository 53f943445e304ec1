"""TensorFlow, imported when a test first uses it.

The import takes 4 s. The modules that import from here have the mark `tensorflow`, with which `make test` runs them in
a process of their own.
"""

from __future__ import annotations

from typing import Any


def load(*arguments: Any, **options: Any) -> Any:
    """Calls `beam_tfrecords.load`."""
    from beam_tfrecords import load

    return load(*arguments, **options)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # Python and pytest look for such names in every module.
        raise AttributeError(name)
    import tensorflow

    return getattr(tensorflow, name)
