"""Requests to the REST interface of a Flink job manager.

https://nightlies.apache.org/flink/flink-docs-stable/docs/ops/rest_api/
"""

from __future__ import annotations

import contextlib
import http.client
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

from beam_tfrecords.beam_pipelines.runners.jobs import UnreachableError

_TIMEOUT = 5.0


@contextlib.contextmanager
def asking(url: str) -> Iterator[None]:
    """Raises `UnreachableError` for whatever a request raises if Flink does not answer, or something else does.

    Args:
      url: `http://host:port` of the job manager.
    """
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        reason = getattr(error, "reason", error)
        said = str(getattr(reason, "strerror", None) or reason or type(error).__name__)
        raise UnreachableError(url, said) from error


def get(url: str) -> Any:
    """The answer to a request, as parsed JSON.

    Raises:
      HTTPError: the job manager refuses, with code 404 if it knows no such job.
      OSError, HTTPException, ValueError: nothing, or something else, answers.
    """
    # A stranger's folder may say any; others would be files of this machine.
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no address of Flink")
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
        return json.load(response)


def patch(url: str) -> None:
    """Sends a request without an answer; raises as `get` does."""
    with urllib.request.urlopen(urllib.request.Request(url, method="PATCH"), timeout=_TIMEOUT):
        pass
