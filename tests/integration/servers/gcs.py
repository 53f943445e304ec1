"""A local Google Cloud Storage: fake-gcs-server behind a small proxy.

The proxy corrects three deviations of the emulator from the real service: it ignores the parts of a batch without a
`Content-ID`, which Google's Python client does not send; it ignores generation preconditions on reads, compose,
rewrite and delete; it answers 500 instead of 404 when a source of a compose is missing. The proxy also records
requests, and refuses them on demand.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import http.server
import itertools
import json
import os
import re
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests.integration.servers import processes

_PROJECT_ID = "test"
_OBJECT = r"/storage/v1/b/[^/]+/o/[^/]+"
# Method and path of the requests with preconditions; the group is the object that a precondition is about.
_CONDITIONED = (
    ("POST", re.compile(rf"^({_OBJECT})/compose$")),
    ("POST", re.compile(rf"^{_OBJECT}/(?:rewriteTo|copyTo)(/b/[^/]+/o/[^/]+)$")),
    ("DELETE", re.compile(rf"^({_OBJECT})$")),
    ("PATCH", re.compile(rf"^({_OBJECT})$")),
    ("GET", re.compile(rf"^({_OBJECT})$")),
    ("GET", re.compile(rf"^/download({_OBJECT})$")),
)
_BATCH_PART = re.compile(rb"^Content-Type: application/http\r?\n", re.MULTILINE)
# These belong to one connection, not to the request.
_HOP_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"})


@dataclasses.dataclass
class _Refusal:
    method: str
    contains: str
    status: int
    times: int


@dataclasses.dataclass
class GcsServer:
    """A running storage service.

    Attributes:
      endpoint: its URL.
      environment: variables that make Beam and Google's client use this service. They include credentials:
        without any, Beam searches for over 20 seconds in every worker process.
      requests: method and path of every request so far, as `"POST /storage/v1/b/bucket/o/name/compose"`.
    """

    endpoint: str
    environment: dict[str, str]
    requests: list[str] = dataclasses.field(default_factory=list)
    _refusals: list[_Refusal] = dataclasses.field(default_factory=list)
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def client(self) -> storage.Client:
        """A client of this service that needs nothing in the environment."""
        return storage.Client(
            project=_PROJECT_ID,
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.endpoint},
        )

    def refuse(self, method: str, contains: str, *, status: int = 503, times: int = 1) -> None:
        """Answers the next `times` requests of the method, with `contains` in the path, with an error."""
        with self._lock:
            self._refusals.append(_Refusal(method, contains, status, times))

    def _note(self, method: str, path: str) -> int | None:
        """Records a request; the status to refuse it with, if any."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            for refusal in self._refusals:
                if refusal.times and refusal.method == method and refusal.contains in path:
                    refusal.times -= 1
                    return refusal.status
        return None


@contextlib.contextmanager
def gcs_server(folder: Path, *, in_memory: bool = True, buckets: tuple[str, ...] = ()) -> Iterator[GcsServer]:
    """Runs the service on a free loopback port, over plain HTTP, until the block ends.

    Sets nothing in this process: pass `environment` to subprocesses, or set it with `monkeypatch.setenv`.

    Args:
      folder: for the log, the credentials file and, unless `in_memory`, the objects.
      in_memory: objects live in the emulator's memory, else in files.
      buckets: created at the start (names of three characters or more).

    Raises:
      processes.ServerError: it did not start.
    """
    port = processes.free_port()
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Proxy)
    endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
    credentials = folder / "credentials.json"
    credentials.write_text(json.dumps(_CREDENTIALS))
    server = GcsServer(
        endpoint,
        {
            "STORAGE_EMULATOR_HOST": endpoint,
            "GOOGLE_APPLICATION_CREDENTIALS": str(credentials),
            "GOOGLE_CLOUD_PROJECT": _PROJECT_ID,
        },
    )
    proxy.storage = server  # type: ignore[attr-defined]
    proxy.upstream_port = port  # type: ignore[attr-defined]
    command: list[str | Path] = [
        processes.binary("fake-gcs-server"),
        "-scheme=http",
        "-host=127.0.0.1",
        f"-port={port}",
        f"-backend={'memory' if in_memory else 'filesystem'}",
        f"-filesystem-root={folder / 'objects'}",
        # Clients continue an upload through the proxy too.
        f"-external-url={endpoint}",
        "-log-level=warn",
    ]
    with processes.running(command, port=port, log=folder / "gcs.log", env=dict(os.environ)):
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            for bucket in buckets:
                server.client().create_bucket(bucket)
            yield server
        finally:
            proxy.shutdown()
            thread.join()
            proxy.server_close()


# The token does not expire, so nobody asks Google for another.
_CREDENTIALS = {
    "type": "authorized_user",
    "client_id": "emulator",
    "client_secret": "emulator",
    "refresh_token": "emulator",
    "token": "emulator",
    "expiry": "2999-01-01T00:00:00Z",
}


class _Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the emulator; one instance, in a thread of its own, for each connection."""

    protocol_version = "HTTP/1.1"
    # Headers and body are written apart; together with delayed acknowledgements Nagle would cost 40 ms per request.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._storage: GcsServer = self.server.storage  # type: ignore[attr-defined]
        self._upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port)  # type: ignore[attr-defined]

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        status = self._storage._note(self.command, urllib.parse.unquote(path))
        if status is not None:
            self._answer_error(status, "refused by the test")
            return
        if path.startswith("/batch/"):
            numbers = itertools.count()
            body = _BATCH_PART.sub(lambda part: part[0] + b"Content-ID: <%d>\r\n" % next(numbers), body)
        expected = urllib.parse.parse_qs(query).get("ifGenerationMatch")
        target = _conditioned_object(self.command, path)
        if expected and target:
            with self._storage._lock:
                if self._generation(target) != int(expected[0]):
                    self._answer_error(412, "At least one of the pre-conditions you specified did not hold.")
                    return
                self._pass_on(body)
        else:
            self._pass_on(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

    def _pass_on(self, body: bytes) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_HEADERS}
        self._upstream.request(self.command, self.path, body or None, headers)
        response = self._upstream.getresponse()
        content = response.read()
        if response.status == 500 and self.path.partition("?")[0].endswith("/compose"):
            self._answer_error(404, "a source object does not exist")
            return
        self.send_response_only(response.status)
        for name, value in response.getheaders():
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        length = response.getheader("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)

    def _generation(self, path: str) -> int:
        """Generation of the live object, 0 if there is none."""
        self._upstream.request("GET", path)
        response = self._upstream.getresponse()
        content = response.read()
        return int(json.loads(content)["generation"]) if response.status == 200 else 0

    def _answer_error(self, status: int, message: str) -> None:
        content = json.dumps({"error": {"code": status, "message": message}}).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _conditioned_object(method: str, path: str) -> str | None:
    for conditioned_method, pattern in _CONDITIONED:
        match = pattern.match(path)
        if conditioned_method == method and match:
            target = match[1]
            return target if target.startswith("/storage/") else f"/storage/v1{target}"
    return None
