"""A local S3: moto's server behind a small proxy that records requests, and refuses or cuts them off on demand."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import http.server
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3

from tests.integration.servers import processes

# These belong to one connection, not to the request.
_HOP_HEADERS = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "expect", "date", "server"}
)
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@dataclasses.dataclass
class _Fault:
    method: str
    contains: str
    times: int
    status: int = 0
    text: str = ""
    after: bool = False


@dataclasses.dataclass
class S3Server:
    """A running storage service.

    Attributes:
      endpoint: its URL.
      environment: variables that make boto3 use this service.
      requests: method, path and query of every request so far, as `"PUT /bucket/name?partNumber=1"`.
    """

    endpoint: str
    environment: dict[str, str]
    requests: list[str] = dataclasses.field(default_factory=list)
    _faults: list[_Fault] = dataclasses.field(default_factory=list)
    _client: Any = None
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def client(self) -> Any:
        """A client of this service that needs nothing in the environment."""
        if self._client is None:
            session = boto3.session.Session("test", "test", region_name="us-east-1")
            self._client = session.client("s3", endpoint_url=self.endpoint)
        return self._client

    def refuse(self, method: str, contains: str, *, status: int = 503, code: str = "SlowDown", times: int = 1) -> None:
        """Answers the next `times` requests of the method, with `contains` in path or query, with an error."""
        self.answer(method, contains, status=status, text=_error_text(code), times=times)

    def answer(self, method: str, contains: str, *, status: int, text: str, times: int = 1) -> None:
        """Answers the next such requests with a status and a text."""
        with self._lock:
            self._faults.append(_Fault(method, contains, times, status, text))

    def lose(self, method: str, contains: str, *, times: int = 1) -> None:
        """Does what the next such requests ask for, and answers with an error."""
        with self._lock:
            self._faults.append(_Fault(method, contains, times, 503, _error_text("InternalError"), after=True))

    def break_off(self, method: str, contains: str, *, times: int = 1) -> None:
        """Ends the connection in the middle of the answers to the next such requests."""
        with self._lock:
            self._faults.append(_Fault(method, contains, times))

    def forget_faults(self) -> None:
        """Answers every request again."""
        with self._lock:
            self._faults.clear()

    def has_faults(self) -> bool:
        """Whether there are faults that no request has met."""
        with self._lock:
            return any(fault.times for fault in self._faults)

    def _note(self, method: str, path: str) -> _Fault | None:
        with self._lock:
            self.requests.append(f"{method} {path}")
            for fault in self._faults:
                if fault.times and fault.method == method and fault.contains in path:
                    fault.times -= 1
                    return fault
        return None


def _error_text(code: str) -> str:
    return f"<Error><Code>{code}</Code><Message>refused by\nthe test</Message></Error>"


@contextlib.contextmanager
def s3_server(folder: Path, *, buckets: tuple[str, ...] = ()) -> Iterator[S3Server]:
    """Runs the service on a free loopback port, over plain HTTP, until the block ends.

    Sets nothing in this process: pass `environment` to subprocesses, or set it with `monkeypatch.setenv`.

    Args:
      folder: for the log.
      buckets: created at the start (names of three characters or more).

    Raises:
      processes.ServerError: it did not start.
    """
    port = processes.free_port()
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Proxy)
    endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
    server = S3Server(endpoint, {"AWS_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": "us-east-1", **_CREDENTIALS})
    proxy.storage = server  # type: ignore[attr-defined]
    proxy.upstream_port = port  # type: ignore[attr-defined]
    command: list[str | Path] = [sys.executable, "-m", "moto.server", "-H127.0.0.1", f"-p{port}"]
    with processes.running(command, port=port, log=folder / "s3.log"):
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            for bucket in buckets:
                server.client().create_bucket(Bucket=bucket)
            yield server
        finally:
            proxy.shutdown()
            thread.join()
            proxy.server_close()


class _Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the emulator; one instance, in a thread of its own, for each connection."""

    protocol_version = "HTTP/1.1"
    # Headers and body are written apart; together with delayed acknowledgements Nagle would cost 40 ms per request.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self._storage: S3Server = self.server.storage  # type: ignore[attr-defined]
        self._upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port)  # type: ignore[attr-defined]

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self._storage._note(self.command, urllib.parse.unquote(self.path))
        if fault and fault.status and not fault.after:
            self._answer_error(fault)
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_HEADERS}
        self._upstream.request(self.command, self.path, body or None, headers)
        response = self._upstream.getresponse()
        content = response.read()
        if fault and fault.after:
            self._answer_error(fault)
            return
        self.send_response_only(response.status, response.reason)
        for name, value in response.headers.items():
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        # The answer to HEAD has the length of the object.
        length = response.headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        if fault:
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        else:
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _handle

    def _answer_error(self, fault: _Fault) -> None:
        content = b"" if self.command == "HEAD" else fault.text.encode()
        self.send_response_only(fault.status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *words: object) -> None:
        pass
