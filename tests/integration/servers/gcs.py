"""A local Google Cloud Storage: fake-gcs-server behind a small proxy.

The proxy corrects four deviations of the emulator from the real service: it ignores the parts of a batch without a
`Content-ID`, which Google's Python client does not send; it ignores generation preconditions on reads, compose,
rewrite and delete; it answers 500 instead of 404 when a source of a compose is missing; it breaks off when the last
bytes of an upload in chunks are sent once more, because the first answer was lost.
"""

from __future__ import annotations

import contextlib
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

from tests.integration.servers import processes, proxy

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
# An object does not change between its precondition and the request.
_conditions = threading.Lock()
# URL of an upload in chunks that has ended -> what was answered then.
_ended: dict[str, proxy.Answer] = {}


class GcsServer(proxy.StorageServer):
    """A running storage service.

    Its environment includes credentials: without any, Beam searches for over 20 seconds in every worker process.
    """

    CONTENT_TYPE = "application/json"

    def client(self) -> storage.Client:
        """A client of this service that needs nothing in the environment."""
        return storage.Client(
            project=_PROJECT_ID,
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.endpoint},
        )

    def error_text(self, status: int) -> str:
        """The body of the service's answer with an error."""
        return _error_text(status, "Access denied." if status == 403 else "refused by the test")


@contextlib.contextmanager
def gcs_server(folder: Path, *, buckets: tuple[str, ...] = ()) -> Iterator[GcsServer]:
    """Runs the service on a free loopback port, over plain HTTP, until the block ends.

    Sets nothing in this process: pass `environment` to subprocesses, or set it with `monkeypatch.setenv`.

    Args:
      folder: for the log and the credentials file; objects are in the emulator's memory.
      buckets: created at the start (names of three characters or more).

    Raises:
      processes.ServerError: it did not start.
    """
    credentials = folder / "credentials.json"
    credentials.write_text(json.dumps(_CREDENTIALS))

    def before(endpoint: str) -> GcsServer:
        environment = {
            "STORAGE_EMULATOR_HOST": endpoint,
            "GOOGLE_APPLICATION_CREDENTIALS": str(credentials),
            "GOOGLE_CLOUD_PROJECT": _PROJECT_ID,
        }
        return GcsServer(endpoint, processes.free_port(), environment)

    with proxy.running(_Handler, before) as server:
        command: list[str | Path] = [
            processes.binary("fake-gcs-server"),
            "-scheme=http",
            "-host=127.0.0.1",
            f"-port={server.upstream_port}",
            "-backend=memory",
            # Clients continue an upload through the proxy too.
            f"-external-url={server.endpoint}",
            "-log-level=warn",
        ]
        with processes.running(command, port=server.upstream_port, log=folder / "gcs.log", env=dict(os.environ)):
            for bucket in buckets:
                server.client().create_bucket(bucket)
            yield server


# The token does not expire, so nobody asks Google for another.
_CREDENTIALS = {
    "type": "authorized_user",
    "client_id": "emulator",
    "client_secret": "emulator",
    "refresh_token": "emulator",
    "token": "emulator",
    "expiry": "2999-01-01T00:00:00Z",
}


class _Handler(proxy.Handler):
    def pass_on(self, body: bytes) -> proxy.Answer:
        """Sends a request to the emulator, and corrects what it does."""
        path, _, query = self.path.partition("?")
        if self.path in _ended:
            return _ended[self.path]
        if path.startswith("/batch/"):
            numbers = itertools.count()
            body = _BATCH_PART.sub(lambda part: part[0] + b"Content-ID: <%d>\r\n" % next(numbers), body)
        expected = urllib.parse.parse_qs(query).get("ifGenerationMatch")
        target = _conditioned_object(self.command, path)
        with _conditions if expected and target else contextlib.nullcontext():
            if expected and target and self._generation(target) != int(expected[0]):
                return _error(412, "At least one of the pre-conditions you specified did not hold.")
            answer = super().pass_on(body)
        if answer.status == 500 and path.endswith("/compose"):
            return _error(404, "a source object does not exist")
        if self.command == "PUT" and "upload_id=" in query and answer.status in (200, 201):
            _ended[self.path] = answer
        return answer

    def _generation(self, path: str) -> int:
        """Generation of the live object, 0 if there is none."""
        answer = self.ask("GET", path, headers={})
        return int(json.loads(answer.content)["generation"]) if answer.status == 200 else 0


def _error(status: int, message: str) -> proxy.Answer:
    return proxy.Answer(status, {"Content-Type": GcsServer.CONTENT_TYPE}, _error_text(status, message).encode())


def _error_text(status: int, message: str) -> str:
    return json.dumps({"error": {"code": status, "message": message}})


def _conditioned_object(method: str, path: str) -> str | None:
    for conditioned_method, pattern in _CONDITIONED:
        match = pattern.match(path)
        if conditioned_method == method and match:
            target = match[1]
            return target if target.startswith("/storage/") else f"/storage/v1{target}"
    return None
