"""Reads S3 objects like boto3, without the work that boto3 repeats for every request.

A call of its client takes 2.4 ms of processor time, almost as much as converting a photo; this takes 0.3 ms. The client
reads the first object of a bucket. Its request, with another name and another signature, then reads the other objects
through the client's endpoints, connections and certificates. For any other response, the client repeats the request,
because it knows the meaning of errors.
"""

from __future__ import annotations

import base64
import hashlib
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import urllib3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

from beam_tfrecords import crc32c
from beam_tfrecords.storage import request_metrics
from beam_tfrecords.storage.botocore_private import connections_to
from beam_tfrecords.storage.options import current_options
from beam_tfrecords.storage.range_reader import is_complete
from beam_tfrecords.storage.retries import REFUSALS, RETRIED
from beam_tfrecords.storage.s3_client import PAYER_HEADER, STORE, Access, access

_HEADERS = {"Range": "Range", "IfMatch": "If-Match"}
# Headers that differ in every request.
_OWN_HEADERS = frozenset(
    {
        "amz-sdk-invocation-id",
        "amz-sdk-request",
        "authorization",
        "if-match",
        "range",
        "x-amz-date",
        "x-amz-security-token",
        "x-amzn-trace-id",
        PAYER_HEADER,
    }
)
# Responses after which the client follows another endpoint, or may use other credentials next time.
_ELSEWHERE = frozenset({301, 302, 307, 308, 400, 401, 403})
_CHECKSUMS: Mapping[str, Callable[[bytes], bytes]] = {
    "x-amz-checksum-crc32c": lambda data: crc32c.value(data).to_bytes(4, "big"),
    "x-amz-checksum-crc32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "x-amz-checksum-sha256": lambda data: hashlib.sha256(data).digest(),
    "x-amz-checksum-sha1": lambda data: hashlib.sha1(data).digest(),
}


class Route(NamedTuple):
    """How the client reads the objects of a bucket.

    Attributes:
      pool: connections of the client.
      root: URL before the name of an object.
      headers: common headers of all requests.
      region: region that requests are signed for; None for unsigned requests.
    """

    pool: Any
    root: str
    headers: Mapping[str, str]
    region: str | None


def learn(bucket: str, key: str) -> None:
    """Remembers the client's last read of an object, if other objects of the bucket can be read the same way."""
    found = access()
    if (sent := getattr(found.sent, "request", None)) is not None and bucket not in found.routes:
        found.sent.request = None
        found.routes[bucket] = _route(found, sent, key)


def _route(found: Access, sent: Any, key: str) -> Route | None:
    headers = {name: value.decode() if isinstance(value, bytes) else value for name, value in sent.headers.items()}
    signed = headers.get("Authorization")
    # "AWS4-HMAC-SHA256 Credential=ID/20260131/us-east-1/s3/aws4_request, SignedHeaders=..."
    kind, _, words = (signed or "").partition(" ")
    scope = words.partition(",")[0].split("/")[-4:]
    is_usual = kind == "AWS4-HMAC-SHA256" and len(scope) == 4 and scope[2] == "s3" and found.credentials is not None
    name = quote(key, safe="/~")
    if not (sent.url.endswith(f"/{name}") and (is_usual or signed is None)):
        return None
    pool = connections_to(found.client, sent.url)
    if pool is None:
        return None
    kept = {name: value for name, value in headers.items() if name.lower() not in _OWN_HEADERS}
    return Route(pool, sent.url.removesuffix(name), kept, scope[1] if signed else None)


def read(bucket: str, key: str, *, size: int = 0, **options: str) -> tuple[bytes, Mapping[str, str]] | None:
    """Reads an object, or a range of it.

    Args:
      bucket: the bucket.
      key: name of the object.
      size: size of the object in bytes; 0 if unknown.
      options: `Range` and `IfMatch`, as for the client.

    Returns:
      Content and headers of the response; None if the client must repeat the request.

    Raises:
      ClientError: the object does not exist.
    """
    found = access()
    route = found.routes.get(bucket)
    if route is None:
        return None
    began = time.monotonic()
    url = f"{route.root}{quote(key, safe='/~')}"
    STORE.wait()
    request_metrics.count(request_metrics.READ)
    try:
        answer = route.pool.urlopen(
            "GET",
            urlsplit(url).path,
            headers=_headers(found, route, url, options),
            retries=False,
            redirect=False,
            assert_same_host=False,
            decode_content=False,
        )
    except urllib3.exceptions.HTTPError:
        _pause(began, status=0)
        return None
    if answer.status in RETRIED:
        _pause(began, status=answer.status)
    elif answer.status == 404 and b"<Code>NoSuchKey</Code>" in answer.data:
        STORE.note_answer()
        response = {"Error": {"Code": "NoSuchKey"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
        raise found.client.exceptions.NoSuchKey(response, "GetObject")
    elif answer.status in _ELSEWHERE:
        found.routes.pop(bucket, None)
    elif answer.status in (200, 206) and "ETag" in answer.headers:
        data, headers = answer.data, answer.headers
        request_metrics.count("bytes_read", len(data))
        if is_complete(data, headers.get("Content-Range", ""), size) and _is_whole(answer.status, data, headers):
            STORE.note_answer()
            return data, headers
        _pause(began, status=0)
    return None


def _headers(found: Access, route: Route, url: str, options: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers of a request, signed."""
    request = AWSRequest("GET", url, headers=dict(route.headers))
    for name, value in options.items():
        request.headers[_HEADERS[name]] = value
    if current_options().payer:
        request.headers[PAYER_HEADER] = "requester"
    if route.region is not None:
        S3SigV4Auth(found.credentials.get_frozen_credentials(), "s3", route.region).add_auth(request)
    return dict(request.headers.items())


def _pause(began: float, *, status: int) -> None:
    """Waits before the client repeats the request."""
    time.sleep(STORE.pause(began, 0, is_busy=status in REFUSALS) or 0.0)


def _is_whole(status: int, data: bytes, headers: Mapping[str, str]) -> bool:
    """Whether an object matches its checksum, if the store returns one of the whole object."""
    for name, compute in _CHECKSUMS.items() if status == 200 else ():
        if (told := headers.get(name)) and "-" not in told:
            return base64.b64decode(told) == compute(data)
    return True
