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
from beam_tfrecords.errors import describe_exception

_TIMEOUT = 5.0


@contextlib.contextmanager
def asking(url: str) -> Iterator[None]:
    """Turns exceptions of requests into `UnreachableError` if Flink does not answer, or another server does.

    Args:
      url: `http://host:port` of the job manager.
    """
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        reason = getattr(error, "reason", error)
        said = getattr(reason, "strerror", None)
        said = said or (describe_exception(reason) if isinstance(reason, BaseException) else str(reason))
        raise UnreachableError(url, said) from error


def get(url: str) -> Any:
    """Returns the JSON answer to a request.

    Raises:
      HTTPError: the job manager rejects the request, with code 404 for an unknown job.
      OSError, HTTPException, ValueError: no server, or another server, answers.
    """
    # An untrusted folder may contain any URL, and other schemes could read files of this machine.
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no address of Flink")
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
        return json.load(response)


def patch(url: str) -> None:
    """Sends a PATCH request and ignores the answer; raises the same errors as `get`."""
    with urllib.request.urlopen(urllib.request.Request(url, method="PATCH"), timeout=_TIMEOUT):
        pass
