"""Imports Beam without the readers and writers that nothing here uses."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

# Imported by `apache_beam.io` for what they define, with their clients.
_IO = tuple(f"apache_beam.io.{name}" for name in ("avroio", "mongodbio", "parquetio"))
# Imported if it can be, with what follows it.
_BIGQUERY = "apache_beam.io.gcp.bigquery"
_OF_GOOGLE = (_BIGQUERY, "apache_beam.io.gcp.pubsub", "apache_beam.io.gcp.gcsio", "apache_beam.transforms.xlang.io")


def import_beam() -> None:
    """Imports Beam; `apache_beam.io` imports the rest when somebody asks for a name that it does not have.

    A build waits for the import, and the rest of it takes a seventh of that time.
    """
    if "apache_beam" in sys.modules:
        return
    left_out = [name for name in (*_IO, _BIGQUERY) if name not in sys.modules]
    # None is a module that cannot be imported.
    sys.modules |= {name: types.ModuleType(name) for name in left_out if name in _IO}
    sys.modules |= {name: None for name in left_out if name not in _IO}  # type: ignore[misc]
    try:
        from apache_beam import io
    finally:
        for name in left_out:
            del sys.modules[name]
    vars(io)["__getattr__"] = _find_in_the_rest


def _find_in_the_rest(name: str) -> Any:
    """An attribute of `apache_beam.io` that it does not have yet."""
    from apache_beam import io

    # Underscores: Python itself asks for some.
    for module in () if name.startswith("__") else (*_IO, *_OF_GOOGLE):
        try:
            found = importlib.import_module(module)
        except ImportError:  # of an extra that is not installed
            continue
        public = getattr(found, "__all__", None) or [one for one in vars(found) if not one.startswith("_")]
        vars(io).update({one: getattr(found, one) for one in public if one not in vars(io)})
    if name in vars(io):
        return vars(io)[name]
    raise AttributeError(f"module 'apache_beam.io' has no attribute {name!r}")
