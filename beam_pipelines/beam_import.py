"""Imports Beam in half of its time, for work on local files in local processes."""

from __future__ import annotations

import sys

from transforms.child import import_modules

# Clients of clouds and databases. Beam does without those that are not installed; they are more than half of its
# import time. Its own BigQuery module asks for them in vain, but imports a web client before.
_CLIENT_PACKAGES = (
    "apache_beam.io.gcp.bigquery",
    "apitools",
    "bson",
    "google.api_core",
    "google.auth",
    "google.cloud",
    "pymongo",
)


def import_beam_for_local_files() -> None:
    """Imports Beam as if the clients of clouds and databases were not installed.

    This process cannot open `gs://` paths afterwards; others can. Does nothing if Beam is imported already.
    """
    if "apache_beam" in sys.modules:
        return
    hidden = [name for name in _CLIENT_PACKAGES if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        import_modules("apache_beam.runners.portability.fn_api_runner")
    finally:
        for name in hidden:
            del sys.modules[name]
