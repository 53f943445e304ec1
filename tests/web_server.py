"""A web server on this machine, with hosts' good and bad habits."""

from __future__ import annotations

import contextlib
import gzip
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_BOMB = gzip.compress(bytes(1 << 24))


class WebServer(ThreadingHTTPServer):
    """Serves files: path -> bytes, in the way that the first folder of the path says.

    Attributes:
      seen: path -> requests for it.
      most_at_once: requests that were answered at the same time.
    """

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], host: str) -> None:
        super().__init__((host, 0), _Handler)
        self.files = files
        self.seen: Counter[str] = Counter()
        self.headers: Mapping[str, str] = {}
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://{self.server_address[0]}:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are meant."""


@contextlib.contextmanager
def web_server(files: Mapping[str, bytes], host: str = "127.0.0.1") -> Iterator[WebServer]:
    """Runs a server."""
    server = WebServer(files, host)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebServer

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.seen[self.path] += 1
            self.server.headers = dict(self.headers)
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.at_once, self.server.most_at_once)
        try:
            way, _, name = self.path.lstrip("/").partition("/")
            answer = getattr(self, f"answer_{way}", None)
            if answer:
                answer(name.partition("?")[0])
            else:
                self.send(404, b"<html>Not found</html>")
        finally:
            with self.server.lock:
                self.server.at_once -= 1

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""

    def send(self, status: int, body: bytes, *, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        for header, value in headers.items():
            self.send_header(header.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def answer_plain(self, name: str) -> None:
        data = self.server.files.get(name)
        self.send(*((404, b"") if data is None else (200, data)))

    def answer_slow(self, name: str) -> None:
        time.sleep(0.1)
        self.answer_plain(name)

    def answer_moved(self, name: str) -> None:
        self.send(302, b"", Location=f"/plain/{name}")

    def answer_to(self, name: str) -> None:
        self.send(302, b"", Location=f"http://{name}")

    def answer_circle(self, name: str) -> None:
        self.send(302, b"", Location=f"/circle/{name}")

    def answer_elsewhere(self, name: str) -> None:
        self.send(302, b"", Location=f"ftp://127.0.0.1/{name}")

    def answer_gzip(self, name: str) -> None:
        self.send(200, gzip.compress(self.server.files[name]), Content_Encoding="gzip")

    def answer_bomb(self, name: str) -> None:
        self.send(200, _BOMB, Content_Encoding="gzip")

    def answer_chunked(self, name: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for start in range(0, len(self.server.files[name]), 100):
            piece = self.server.files[name][start : start + 100]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def answer_silent(self, name: str) -> None:
        self.server.closing.wait(20)
        self.close_connection = True

    def answer_cut(self, name: str) -> None:
        data = self.server.files[name]
        self.send(200, data[:50], length=len(data))
        self.close_connection = True

    def answer_cut_once(self, name: str) -> None:
        if self.server.seen[self.path] > 1:
            self.answer_plain(name)
        else:
            self.answer_cut(name)

    def answer_stall(self, name: str) -> None:
        self.send(200, self.server.files[name][:50], length=len(self.server.files[name]))
        self.server.closing.wait(20)

    def answer_drip(self, name: str) -> None:
        self.send(200, b"", length=10_000)
        while not self.server.closing.wait(0.1):
            self.wfile.write(b".")

    def answer_bad_target(self, name: str) -> None:
        self.send(302, b"", Location="http://[x/")

    def answer_busy_once(self, name: str) -> None:
        if self.server.seen[self.path] > 1:
            self.answer_plain(name)
        else:
            self.send(429, b"", Retry_After="1")

    def answer_busy(self, name: str) -> None:
        self.send(503, b"", Retry_After=name)

    def answer_broken(self, name: str) -> None:
        self.send(500, b"")

    def answer_page(self, name: str) -> None:
        self.send(200, b"<!DOCTYPE html><html>Sorry</html>", Content_Type="text/html")
