"""Reads objects of Google Cloud Storage through its JSON API.

The library's own download takes 1.7 ms of processor time per image, this code less than a third of that; converting a
photo takes 3 ms. Credentials and errors are the library's.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import requests
import urllib3
from google.api_core import exceptions

from beam_tfrecords import crc32c
from beam_tfrecords.storage import request_metrics
from beam_tfrecords.storage.entries import ChangedError
from beam_tfrecords.storage.gcs_client import connections, download_url, errors, message_of, retried
from beam_tfrecords.storage.retries import DamagedAnswerError

# Seconds to connect, and between two pieces of a response, as in the library.
_TIMEOUT = 60
_GENERATION = "x-goog-generation"


def download(path: str, *, version: str, offset: int = 0, length: int = 0) -> bytes | None:
    """Reads an object or a range of it.

    Args:
      path: the object.
      version: generation to read; "" for any.
      offset: start of the range.
      length: length of the range; 0 reads the whole object.

    Returns:
      The bytes, fewer at the end of the object; None if the object ends before the range starts.
    """
    with errors(path):
        try:
            data, found = _request(path, version=version, offset=offset, length=length)
        except exceptions.RequestRangeNotSatisfiable:
            return None
    # The precondition saves the transfer, but some stores ignore it for reads.
    if version and found.get(_GENERATION, version) != version:
        raise ChangedError(f"{path} has changed since it was listed")
    return data


def download_state(path: str) -> tuple[bytes, str] | None:
    """Returns an object and its generation, "" if the store does not return it; None if the object does not exist."""
    with errors(path):
        try:
            data, found = _request(path)
        except exceptions.NotFound:
            return None
    return data, found.get(_GENERATION, "")


def _request(path: str, *, version: str = "", offset: int = 0, length: int = 0) -> tuple[bytes, Mapping[str, str]]:
    # Objects stored with compression arrive as they are stored.
    headers = {"Accept-Encoding": "gzip"}
    if length:
        headers["Range"] = f"bytes={offset}-{offset + length - 1}"
    return retried(_get)(download_url(path, version=version), headers)


def _get(url: str, headers: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]]:
    """Makes one attempt; returns content and headers of the response."""
    try:
        answer = connections().urlopen(
            "GET", url, headers=dict(headers), timeout=_TIMEOUT, retries=False, decode_content=False
        )
    # Converted to the errors that the library raises.
    except urllib3.exceptions.HTTPError as error:
        is_late = isinstance(error, urllib3.exceptions.TimeoutError)
        is_late = is_late and not isinstance(error, urllib3.exceptions.NewConnectionError)
        raise (requests.Timeout if is_late else requests.ConnectionError)(error) from error
    request_metrics.count(request_metrics.READ)
    request_metrics.count("bytes_read", len(answer.data))
    if answer.status not in (200, 206):
        text = answer.data.decode(errors="replace")
        raise exceptions.from_http_status(answer.status, message_of(answer.status, text))
    if not (_is_range if answer.status == 206 else _is_whole)(answer.data, answer.headers):
        raise DamagedAnswerError
    return answer.data, answer.headers


def _is_whole(data: bytes, headers: Mapping[str, str]) -> bool:
    """Whether an object matches the checksum that the service computed when it was stored."""
    for part in headers.get("x-goog-hash", "").split(","):
        kind, _, value = part.strip().partition("=")
        if kind == "crc32c":
            return int.from_bytes(base64.b64decode(value), "big") == crc32c.value(data)
    return True


def _is_range(data: bytes, headers: Mapping[str, str]) -> bool:
    """Whether a range has the length in the response's header."""
    first, _, last = headers.get("Content-Range", "").partition("/")[0].removeprefix("bytes ").partition("-")
    return not last.isdecimal() or len(data) == int(last) - int(first) + 1
