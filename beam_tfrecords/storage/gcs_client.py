"""The Google Cloud Storage client: credentials, requester pays, request counts, and the conversion of errors."""

from __future__ import annotations

import contextlib
import functools
import http
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import google.auth
import requests
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, InvalidOperation, TransportError
from google.auth.transport.requests import Request
from google.auth.transport.urllib3 import AuthorizedHttp
from google.cloud.storage import Blob, Bucket, Client
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from requests import PreparedRequest, RequestException, Response, Timeout
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from urllib3 import PoolManager
from urllib3.exceptions import HTTPError

from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import paths, request_metrics
from beam_tfrecords.storage.entries import (
    AccessDeniedError,
    ChangedError,
    MissingBucketError,
    ServiceFaultError,
    StorageError,
)
from beam_tfrecords.storage.gcs_private import is_transient, session_of
from beam_tfrecords.storage.options import OWN_PROJECT, current_options
from beam_tfrecords.storage.retries import REFUSALS, DamagedAnswerError, Result, Store, describe_wait

# Connections that stay open: readers request several objects at once.
_CONNECTIONS = 80
_STORE = Store()
# Time limit for a metadata server in seconds; without one, some networks never answer.
_METADATA_SECONDS = 3
# Errors after which retries have been given up.
_NO_ANSWER = (
    exceptions.ServerError,
    exceptions.TooManyRequests,
    TransportError,
    InvalidResponse,
    RequestException,
    HTTPError,
    ConnectionError,
)
_PERMISSIONS = {
    request_metrics.LIST: "storage.objects.list",
    request_metrics.READ: "storage.objects.get",
    request_metrics.WRITE: "storage.objects.create",
    request_metrics.DELETE: "storage.objects.delete",
}
# Matches the permission in a message: "… does not have storage.objects.get access to …".
_PERMISSION = re.compile(r"\bstorage\.[a-zA-Z]+\.[a-zA-Z]+\b")
# Messages about a missing permission that do not name it.
_PLAIN = frozenset({"", "403 forbidden", "access denied", "forbidden"})
# Reasons of status 400 for an invalid name; no change in the store helps.
_WRONG_NAMES = frozenset({"invalid", "invalidArgument", "invalidParameter"})
# Maximum number of characters of the service's sentence in a message.
_MOST_SAID = 600
_LOG_IN = "log in by `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
# Reentrant: objects that the garbage collector closes may send requests in the thread that holds the lock.
_client_lock = threading.RLock()


class _Access(NamedTuple):
    """This process's access to the service.

    Attributes:
      client: client of the library.
      connections: connections with the client's credentials, certificates and proxies.
      project: project of the credentials, if they name one.
      is_anonymous: whether there are no credentials; public buckets can be read.
    """

    client: Client
    connections: AuthorizedHttp
    project: str | None
    is_anonymous: bool


def retried(request: Callable[..., Result]) -> Callable[..., Result]:
    """Wraps a request with the retry policy of `retries`; the library accepts the wrapper as its own retry."""

    @functools.wraps(request)
    def send(*words: Any, **named: Any) -> Result:
        def attempt() -> Result:
            _STORE.wait()
            return request(*words, **named)

        return _STORE.send(attempt, may_pass=_may_pass, is_busy=lambda error: _status(error) in REFUSALS)

    return send


def _may_pass(error: Exception) -> bool:
    return isinstance(error, DamagedAnswerError) or is_transient(error)


def _status(error: Exception) -> int | None:
    """Returns the HTTP status of an error response."""
    if isinstance(error, InvalidResponse):
        return int(error.response.status_code)
    return error.code if isinstance(error, exceptions.GoogleAPICallError) else None


def client() -> Client:
    """Returns the client of this process, made on the first call; any thread may use it."""
    return _access().client


class _Connections(PoolManager):
    """Connections found without parsing the URL of every request, which would take a third of its time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._pools: dict[str, Any] = {}

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, redirect: bool = True, **options: Any
    ) -> Any:
        end = url.find("/", len("https://"))
        if end < 0:
            return super().urlopen(method, url, redirect=redirect, **options)
        root = url[:end]
        pool = self._pools.get(root)
        if pool is None:
            pool = self._pools[root] = self.connection_from_url(root)
        answer = pool.urlopen(method, url[len(root) :], redirect=False, assert_same_host=False, **options)
        if redirect and answer.get_redirect_location():
            return super().urlopen(method, url, redirect=redirect, **options)
        return answer


def connections() -> AuthorizedHttp:
    """Returns connections that send this process's credentials, for requests that the client sends too slowly."""
    return _access().connections


def blob_at(path: str) -> Blob:
    """Returns the object at a path."""
    name = split(path)[1]
    if not name:
        raise StorageError(f"{path} is a bucket, not an object")
    return bucket_of(path).blob(name)


def bucket_of(path: str) -> Bucket:
    """Returns the bucket of a path, with the project that pays for its requests."""
    access = _access()
    return access.client.bucket(split(path)[0], user_project=_payer(access))


def _payer(access: _Access) -> str | None:
    """Returns the project that pays for requests; None for the owner of the bucket."""
    payer = current_options().payer
    if payer == OWN_PROJECT:
        payer = access.project
        if payer is None:
            raise BuildError(
                "`requester_pays=true`: the Google credentials name no project that pays; use `requester_pays=PROJECT`"
            )
    return payer


def download_url(path: str, *, version: str) -> str:
    """Returns the download URL of an object; the library takes as long to compute it as the request takes."""
    bucket, name = split(path)
    if not name:
        raise StorageError(f"{path} is a bucket, not an object")
    access = _access()
    condition = f"&ifGenerationMatch={version}" if version else ""
    payer = _payer(access)
    paid = f"&userProject={quote(payer, safe='')}" if payer else ""
    root = f"{access.client.api_endpoint}/download/storage/v1"
    return f"{root}/b/{bucket}/o/{quote(name, safe='~')}?alt=media{condition}{paid}"


def split(path: str) -> tuple[str, str]:
    """Returns the bucket and the object name of a path."""
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not (bucket and bucket[0].isalnum() and bucket[-1].isalnum()) or paths.is_glob(bucket):
        raise MissingBucketError(f"{path}: {bucket!r} is not the name of a bucket")
    return bucket, name


def _access() -> _Access:
    with _client_lock:
        return _make_access(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST"))


# A forked process must not share its parent's connections.
@functools.lru_cache(maxsize=1)
def _make_access(process: int, emulator: str | None) -> _Access:
    # Otherwise the library requests the bucket's metadata in a background thread, again after every 404.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    credentials, project = (AnonymousCredentials(), None) if emulator else _find_credentials()
    made = Client(project=None, credentials=credentials)
    session = session_of(made)
    if not session.is_mtls:  # with mTLS, the adapter holds the client certificate
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
    session.hooks["response"].append(_count)
    is_anonymous = isinstance(credentials, AnonymousCredentials) and not emulator
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT")
    return _Access(made, _connect(made, credentials), project, is_anonymous)


def _connect(made: Client, credentials: Any) -> AuthorizedHttp:
    if session_of(made).is_mtls:
        authorized = AuthorizedHttp(credentials)
        authorized.configure_mtls_channel()
        return authorized
    # Proxies and certificates from the environment, which urllib3 ignores.
    environment = requests.Session().merge_environment_settings(made.api_endpoint, {}, None, None, None)
    proxy, trusted = select_proxy(made.api_endpoint, environment["proxies"]), environment["verify"]
    trusted = requests.certs.where() if trusted is True else trusted
    if proxy:
        pool = HTTPAdapter(pool_maxsize=_CONNECTIONS).proxy_manager_for(proxy, ca_certs=trusted)
    else:
        pool = _Connections(maxsize=_CONNECTIONS, ca_certs=trusted)
    return AuthorizedHttp(credentials, http=pool)


def _find_credentials() -> tuple[Any, str | None]:
    """Returns credentials and their project; anonymous credentials if there are none."""
    try:
        credentials, project = google.auth.default(scopes=Client.SCOPE, request=_MetadataRequest())
    except DefaultCredentialsError as error:
        if not str(error).startswith("Your default credentials were not found"):
            raise
        return AnonymousCredentials(), None
    return credentials, project


class _MetadataRequest(Request):
    """Checks once for a metadata server: the library would try three times, for 12 s."""

    def __call__(self, url: str, *words: Any, **options: Any) -> Any:
        if urlsplit(url).path.strip("/"):
            return super().__call__(url, *words, **options)
        try:
            return super().__call__(url, *words, **{**options, "timeout": _METADATA_SECONDS})
        except TransportError:
            return SimpleNamespace(status=0, headers={}, data=b"")


def _count(response: Response, **_: Any) -> None:
    kind = _kind_of(response.request)
    request_metrics.count(kind)
    if kind == request_metrics.READ:
        request_metrics.count("bytes_read", int(response.headers.get("Content-Length", 0)))
    elif kind == request_metrics.WRITE:
        request_metrics.count("bytes_written", int(response.request.headers.get("Content-Length", 0)))


def _kind_of(request: PreparedRequest) -> str:
    path = urlsplit(request.url or "").path
    if request.method == "DELETE" or path.startswith("/batch"):
        return request_metrics.DELETE
    if request.method not in ("GET", "HEAD"):
        return request_metrics.WRITE
    return request_metrics.LIST if path.endswith("/o") else request_metrics.READ


@contextlib.contextmanager
def errors(path: str) -> Iterator[None]:
    """Converts the client's errors to StorageError, or to BuildError if the store does not answer."""
    try:
        yield
    except _NO_ANSWER as error:
        raise BuildError(f"{path} does not answer: {_silence(error)}{describe_wait(error)}") from error
    except InvalidOperation as error:  # the library tries to refresh anonymous credentials that were refused
        raise _refused(path, "anonymous access is denied") from error
    except GoogleAuthError as error:
        reason = _one_line(error.args[0] if error.args else error)
        raise BuildError(f"{path}: the Google credentials cannot be used: {reason}; {_LOG_IN}") from error
    except exceptions.GoogleAPICallError as error:
        raise _error_of(path, error) from error
    except (DataCorruption, DamagedAnswerError) as error:
        raise ServiceFaultError(f"{path}: the downloaded bytes do not match the object's checksum") from error


def _error_of(path: str, error: exceptions.GoogleAPICallError) -> Exception:
    """Returns the project's error for an error response."""
    response = error.response
    kind, message = request_metrics.READ, _one_line(error.message)
    if isinstance(response, Response):
        kind, message = _kind_of(response.request), message_of(response.status_code, response.text)
    if isinstance(error, exceptions.NotFound):
        is_bucket = "bucket" in message and "exist" in message
        if is_bucket or (kind in (request_metrics.LIST, request_metrics.WRITE)):
            return MissingBucketError(f"{path}: there is no bucket {split(path)[0]!r} ({message})")
        return StorageError(f"{path} does not exist")
    if isinstance(error, exceptions.PreconditionFailed):
        return ChangedError(f"{path} has changed since it was listed")
    if error.code == 401 or (error.code == 403 and _access().is_anonymous):
        return _refused(path, message)
    if error.code == 403:
        return denied(path, kind, message)
    if "requester pays" in message:
        return BuildError(f"{path}: the bucket lets the requester pay; use `requester_pays=PROJECT`")
    if "bucket name" in message:
        return MissingBucketError(f"{path}: {message}")
    is_wrong = message.partition(":")[0] in _WRONG_NAMES or error.code in (405, 416)
    return (StorageError if is_wrong else ServiceFaultError)(f"{path}: {message}")


def _refused(path: str, message: str) -> BuildError:
    if _access().is_anonymous:
        return BuildError(f"{path}: access denied, and no Google credentials were found; {_LOG_IN} ({message})")
    return BuildError(f"{path}: the Google credentials are refused: {message}; {_LOG_IN}")


def denied(path: str, kind: str, message: str) -> AccessDeniedError:
    """Returns the error for a denied request.

    Args:
      path: the object, or a folder.
      kind: kind of the request, in `request_metrics`.
      message: what the service says, from `message_of`.
    """
    named, is_plain = _PERMISSION.search(message), message.rpartition(": ")[2].rstrip(".").lower() in _PLAIN
    permission = named[0] if named else _PERMISSIONS[kind] if is_plain else None
    return AccessDeniedError(path, message, permission)


def message_of(status: int, text: str) -> str:
    """Returns the service's reason and sentence for an error, in one line and without markup."""
    with contextlib.suppress(ValueError, KeyError, TypeError, IndexError, AttributeError):
        error = json.loads(text)["error"]
        sentence = _one_line(error["message"])[:_MOST_SAID]
        reason = error["errors"][0].get("reason") if error.get("errors") else None
        return f"{reason}: {sentence}" if reason else sentence
    line = _one_line(text)
    return _phrase(status) if not line or "<" in line else line[:_MOST_SAID]


def _silence(error: Exception) -> str:
    """Returns the reason for a missing response, in one line."""
    status = _status(error)
    if status:
        response = getattr(error, "response", None)
        if isinstance(response, Response):
            said = message_of(status, response.text)
        else:
            said = _one_line(getattr(error, "message", ""))
        return _phrase(status) if said in ("", _phrase(status)) or "<" in said else f"{_phrase(status)}: {said}"
    host = client().api_endpoint
    return f"no answer from {host}" if isinstance(error, Timeout) else f"no connection to {host}"


def _phrase(status: int) -> str:
    with contextlib.suppress(ValueError):
        return f"{int(status)} {http.HTTPStatus(status).phrase}"
    return str(status)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
