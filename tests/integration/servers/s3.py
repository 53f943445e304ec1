"""A local S3 behind a small proxy: moto's server, the S3 gateway of Versity, or MinIO.

The proxy corrects a deviation of moto from the real service: two conditional writes at once may both succeed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3

from tests.integration.servers import processes, proxy

_USER, _PASSWORD = "test-user", "test-password"
# Status -> code of the service.
_CODES = {500: "InternalError", 429: "TooManyRequests", 503: "SlowDown"}
# An object does not change between its precondition and the request.
_conditions = threading.Lock()


@dataclasses.dataclass
class S3Server(proxy.StorageServer):
    """A running storage service."""

    CONTENT_TYPE = "application/xml"

    _client: Any = None

    def client(self) -> Any:
        """A client of this service that needs nothing in the environment."""
        if self._client is None:
            session = boto3.session.Session(_USER, _PASSWORD, region_name="us-east-1")
            self._client = session.client("s3", endpoint_url=self.endpoint)
        return self._client

    def error_text(self, status: int) -> str:
        """The body of the service's answer with an error."""
        return _error_text(_CODES.get(status, "AccessDenied"))

    def refuse(self, method: str, contains: str, *, status: int = 503, times: int = 1, code: str = "") -> None:
        """See the base class; the error may have a code of its own."""
        text = _error_text(code) if code else self.error_text(status)
        self.answer(method, contains, status=status, text=text, times=times)


def _error_text(code: str) -> str:
    # What Amazon says of a missing permission; of others something.
    sentence = "Access Denied" if code == "AccessDenied" else "refused by\nthe test"
    return f"<Error><Code>{code}</Code><Message>{sentence}</Message></Error>"


@contextlib.contextmanager
def s3_server(folder: Path, *, buckets: tuple[str, ...] = (), program: str = "moto") -> Iterator[S3Server]:
    """Runs the service on a free loopback port, over plain HTTP, until the block ends.

    Sets nothing in this process: pass `environment` to subprocesses, or set it with `monkeypatch.setenv`.

    Args:
      folder: for the log, and the objects of servers that keep them in files.
      buckets: created at the start (names of three characters or more).
      program: "moto", "versitygw" or "minio".

    Raises:
      processes.ServerError: it did not start.
    """

    def before(endpoint: str) -> S3Server:
        environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": _USER,
            "AWS_SECRET_ACCESS_KEY": _PASSWORD,
        }
        return S3Server(endpoint, processes.free_port(), environment)

    with proxy.running(_MotoHandler if program == "moto" else proxy.Handler, before) as server:
        command, own = _command(program, server.upstream_port, folder)
        log = folder / "s3.log"
        with processes.running(command, port=server.upstream_port, log=log, env={**os.environ, **own}):
            for bucket in buckets:
                server.client().create_bucket(Bucket=bucket)
            yield server


class _MotoHandler(proxy.Handler):
    """Passes on one conditional write at a time: moto's threads look at the object first, and write it later."""

    def pass_on(self, body: bytes) -> proxy.Answer:
        is_conditional = self.command != "GET" and ("If-Match" in self.headers or "If-None-Match" in self.headers)
        with _conditions if is_conditional else contextlib.nullcontext():
            return super().pass_on(body)


def _command(program: str, port: int, folder: Path) -> tuple[list[str | Path], dict[str, str]]:
    """The command of a server, and its variables."""
    if program == "moto":
        return [sys.executable, "-m", "moto.server", "-H127.0.0.1", f"-p{port}"], {}
    data, metadata = folder / "data", folder / "metadata"
    for one in (data, metadata):
        one.mkdir()
    if program == "minio":
        own = {"MINIO_ROOT_USER": _USER, "MINIO_ROOT_PASSWORD": _PASSWORD, "MINIO_BROWSER": "off"}
        return [processes.binary("minio"), "server", "--quiet", f"--address=127.0.0.1:{port}", data], own
    options: list[str | Path] = ["--quiet", "--keep-alive", f"--port=127.0.0.1:{port}"]
    own = {"ROOT_ACCESS_KEY": _USER, "ROOT_SECRET_KEY": _PASSWORD}
    return [processes.binary("versitygw"), *options, "posix", f"--sidecar={metadata}", data], own
