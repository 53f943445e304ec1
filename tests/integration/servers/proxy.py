"""A proxy before a storage service: records requests, and delays, refuses, cuts off or loses them on demand."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import http.client
import http.server
import random
import socket
import struct
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

# These belong to one connection, not to the request.
_HOP_HEADERS = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "expect", "date", "server"}
)


class Kind(enum.Enum):
    """What happens to a request."""

    REFUSE = enum.auto()  # answered with an error; the service never sees it
    RESET = enum.auto()  # the connection is reset; the service never sees it
    SHORT = enum.auto()  # half of the answer's body, then the end of the connection
    CUT = enum.auto()  # half of an object, under the length of that half; of another answer as SHORT
    LOSE = enum.auto()  # the service has done it, and the connection is reset
    LOSE_AND_REFUSE = enum.auto()  # the service has done it, and the answer is an error


# Those that `disturb` draws from.
DISTURBANCES = (Kind.REFUSE, Kind.RESET, Kind.SHORT, Kind.CUT, Kind.LOSE)
STATUSES = (503, 500, 429)


@dataclasses.dataclass
class Fault:
    """What happens to the next requests of a method with some text in their path or query."""

    kind: Kind
    method: str = ""
    contains: str = ""
    times: int = 1
    status: int = 0
    text: str = ""
    # Of the text; that of the service's errors if empty.
    content_type: str = ""


@dataclasses.dataclass
class StorageServer:
    """A running storage service.

    Attributes:
      endpoint: URL of the proxy.
      upstream_port: port of the service itself.
      environment: variables that make clients use this service.
      latency: seconds that pass before a request is looked at.
      disturbed: how many requests `disturb` has disturbed.
      requests: method, path and query of every request so far, as `"PUT /bucket/name?partNumber=1"`.
    """

    # Of its errors.
    CONTENT_TYPE: ClassVar[str]

    endpoint: str
    upstream_port: int
    environment: dict[str, str]
    latency: float = 0.0
    disturbed: int = 0
    requests: list[str] = dataclasses.field(default_factory=list)
    _faults: list[Fault] = dataclasses.field(default_factory=list)
    _share: float = 0.0
    _seed: int = 0
    _kinds: Sequence[Kind] = DISTURBANCES
    _statuses: Sequence[int] = STATUSES
    # Requests until a storm begins, its seconds, and when it ends.
    _storm: tuple[int, float] = (0, 0.0)
    _storm_ends: float = 0.0
    _asked: Counter[str] = dataclasses.field(default_factory=Counter)
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def error_text(self, status: int) -> str:
        """The body of the service's answer with an error."""
        raise NotImplementedError

    def refuse(self, method: str, contains: str, *, status: int = 503, times: int = 1) -> None:
        """Answers the next `times` requests of the method, with `contains` in path or query, with an error."""
        self.answer(method, contains, status=status, text=self.error_text(status), times=times)

    def answer(self, method: str, contains: str, *, status: int, text: str, times: int = 1) -> None:
        """Answers the next such requests with a status and a text."""
        self.add(Fault(Kind.REFUSE, method, contains, times, status, text))

    def lose(self, method: str, contains: str, *, times: int = 1) -> None:
        """Does what the next such requests ask for, and answers with an error."""
        self.add(Fault(Kind.LOSE_AND_REFUSE, method, contains, times, 503, self.error_text(503)))

    def break_off(self, method: str, contains: str, *, times: int = 1) -> None:
        """Ends the connection in the middle of the answers to the next such requests."""
        self.add(Fault(Kind.SHORT, method, contains, times))

    def add(self, fault: Fault) -> None:
        """Adds a fault for the next requests that it fits."""
        with self._lock:
            self._faults.append(fault)

    def forget_faults(self) -> None:
        """Answers every request again."""
        with self._lock:
            self._faults.clear()
            self._share = 0.0
            self._storm, self._storm_ends = (0, 0.0), 0.0

    def has_faults(self) -> bool:
        """Whether there are faults that no request has met."""
        with self._lock:
            return any(fault.times for fault in self._faults)

    def disturb(
        self, share: float, *, seed: int, kinds: Sequence[Kind] = DISTURBANCES, statuses: Sequence[int] = STATUSES
    ) -> None:
        """From now on a share of the requests is refused, reset, cut off, or done without an answer.

        The seed, the request, and how often it has been sent before decide, so that neither threads nor clocks do.

        Args:
          share: of the requests.
          seed: of what happens.
          kinds: what may happen.
          statuses: of answers that are errors.
        """
        with self._lock:
            self._share, self._seed, self._kinds, self._statuses = share, seed, kinds, statuses
            self.disturbed = 0
            self._asked.clear()

    def storm(self, seconds: float, *, after: int) -> None:
        """Refuses every request for some seconds, after so many requests from now."""
        with self._lock:
            self._storm = (after, seconds)

    def _is_stormy(self) -> bool:
        left, seconds = self._storm
        self._storm = (left - 1, seconds)
        if left == 1:
            self._storm_ends = time.monotonic() + seconds
        return time.monotonic() < self._storm_ends

    def meet(self, method: str, path: str) -> Fault | None:
        """Records a request; what happens to it, if anything does."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            if self._is_stormy():
                self.disturbed += 1
                return Fault(Kind.REFUSE, status=503, text=self.error_text(503))
            for fault in self._faults:
                if fault.times and fault.method == method and fault.contains in path:
                    fault.times -= 1
                    return fault
            if not self._share:
                return None
            asked = f"{method} {path}"
            self._asked[asked] += 1
            chance = random.Random(f"{self._seed} {asked} {self._asked[asked]}")
            if chance.random() >= self._share:
                return None
            self.disturbed += 1
        status = chance.choice(self._statuses)
        return Fault(chance.choice(self._kinds), status=status, text=self.error_text(status))


class Answer(NamedTuple):
    """What the service answers."""

    status: int
    headers: dict[str, str]
    content: bytes


class Handler(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the service; one instance, in a thread of its own, for each connection."""

    protocol_version = "HTTP/1.1"
    # Headers and body are written apart; together with delayed acknowledgements Nagle would cost 40 ms per request.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.storage: StorageServer = self.server.storage  # type: ignore[attr-defined]
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.storage.upstream_port)

    def finish(self) -> None:
        self.upstream.close()
        with contextlib.suppress(ConnectionError):
            super().finish()

    def do_GET(self) -> None:
        """Handles a request of any method."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(self.storage.latency)
        fault = self.storage.meet(self.command, urllib.parse.unquote(self.path))
        kind = fault and fault.kind
        if fault and kind is Kind.REFUSE:
            self._answer(self._error(fault))
        elif kind is Kind.RESET:
            self._reset()
        else:
            answer = self.pass_on(body)
            if fault and kind is Kind.LOSE_AND_REFUSE:
                self._answer(self._error(fault))
            elif kind is Kind.LOSE or (kind in (Kind.SHORT, Kind.CUT) and not answer.content):
                self._reset()
            else:
                is_object = not answer.headers.get("Content-Type", "").endswith(("json", "xml"))
                is_cut = kind is Kind.CUT and is_object and self.command == "GET"
                self._answer(answer, is_short=kind in (Kind.SHORT, Kind.CUT), is_cut=is_cut)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def pass_on(self, body: bytes) -> Answer:
        """Sends this request to the service."""
        return self.ask(self.command, self.path, body, headers=dict(self.headers.items()))

    def ask(self, method: str, path: str, body: bytes = b"", *, headers: Mapping[str, str]) -> Answer:
        """Sends any request to the service."""
        passed = {name: value for name, value in headers.items() if name.lower() not in _HOP_HEADERS}
        self.upstream.request(method, path, body or None, passed)
        response = self.upstream.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())

    def _error(self, fault: Fault) -> Answer:
        return Answer(
            fault.status, {"Content-Type": fault.content_type or self.storage.CONTENT_TYPE}, fault.text.encode()
        )

    def _answer(self, answer: Answer, *, is_short: bool = False, is_cut: bool = False) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        half = answer.content[: len(answer.content) // 2]
        length, content = str(len(half if is_cut else answer.content)), half if is_short else answer.content
        if self.command == "HEAD":  # its answer has the length of the object, and no body
            length, content = answer.headers.get("Content-Length", "0"), b""
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)
        self.close_connection |= is_short

    def _reset(self) -> None:
        """Ends the connection as a service does that dies."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.close(self.connection.detach())
        self.close_connection = True

    def log_message(self, format: str, *words: object) -> None:
        """Logs nothing."""


class _Server(http.server.ThreadingHTTPServer):
    # Two builds open dozens of connections at once.
    request_queue_size = 128
    storage: StorageServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or a service that has been ended, is no error."""


Storage = TypeVar("Storage", bound=StorageServer)


@contextlib.contextmanager
def running(handler: type[Handler], make: Callable[[str], Storage]) -> Iterator[Storage]:
    """Runs a proxy on a free loopback port until the block ends.

    Args:
      handler: passes the requests on.
      make: from the proxy's URL to the service that it stands before, which need not be there yet.
    """
    with _Server(("127.0.0.1", 0), handler) as server:
        storage = make(f"http://127.0.0.1:{server.server_address[1]}")
        server.storage = storage
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield storage
        finally:
            server.shutdown()
            thread.join()
