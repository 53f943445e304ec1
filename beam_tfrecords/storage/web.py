"""Downloads images from the web with a GET of `http://` or `https://`; any stranger may run the hosts.

A missing host is the sample's failure; if no host can be reached at all, that is a service fault.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import ipaddress
import math
import os
import socket
import ssl
import time
from typing import Any
from urllib.parse import urljoin

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    NameResolutionError,
    NewConnectionError,
    SSLError,
)
from urllib3.util import parse_url

from beam_tfrecords.errors import describe_exception
from beam_tfrecords.storage.entries import ServiceFaultError, StorageError
from beam_tfrecords.storage.options import current_options
from beam_tfrecords.storage.paths import is_web, shown

# Connections of a process per host, and number of hosts with open connections.
_CONNECTIONS = 8
_HOSTS = 64
# Seconds for a connection, between two pieces of data, and for all attempts at an image.
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 30.0
_MOST_SECONDS = 120.0
# Seconds before each retry unless the host asks for more, and the longest delay to accept from a host.
_PAUSES = (1.0, 4.0)
_MOST_PAUSE = 30.0
_MOST_REDIRECTS = 5
_TRIED_AGAIN = (408, 425, 429, 500, 502, 503, 504)
# A response of any host within this many seconds before an attempt shows that the network works.
_ANSWER_SECONDS = 2.0
_CHUNK_BYTES = 1 << 16
_HEADERS = {"User-Agent": "beam-tfrecords", "Accept": "*/*", "Accept-Encoding": "identity"}
# IPv6 networks whose addresses embed an IPv4 address, and the number of bits after it: mapped and compatible addresses
# (RFC 4291), NAT64 (RFC 6052) and 6to4 (RFC 3056).
_CARRIERS = tuple(
    (ipaddress.IPv6Network(network), shift)
    for network, shift in (("::ffff:0:0/96", 0), ("::/96", 0), ("64:ff9b::/96", 0), ("2002::/16", 80))
)
# NAT64 of a local network (RFC 8215).
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_UNKNOWN_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
# Time of the last response from any host or name server, by the monotonic clock.
_answered = -math.inf
_NO_WAY = (errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH)


def read(url: str, length: int) -> bytes:
    """Reads up to `length` bytes from a URL.

    Raises:
      StorageError: the download failed; a ServiceFaultError if no host can be reached at all.
    """
    _host(url)
    deadline = time.monotonic() + _MOST_SECONDS
    for pause in (*_PAUSES, None):
        began = time.monotonic()
        try:
            return _get(url, length, deadline=deadline)
        except _Failure as failure:
            wait = max(pause or 0, failure.wait)
            is_late = time.monotonic() + wait >= deadline
            if pause is not None and failure.may_pass and wait <= _MOST_PAUSE and not is_late:
                time.sleep(wait)
                continue
            detail = f"{shown(url)}: {failure}"
            if failure.is_doubtful and _answered < began - _ANSWER_SECONDS:
                raise ServiceFaultError(f"{detail}; other hosts do not answer either") from failure
            raise StorageError(detail) from failure
    raise AssertionError


class _Failure(Exception):
    """A failed request.

    Attributes:
      may_pass: whether a retry may succeed.
      wait: seconds that the host asks to wait before a retry.
      is_doubtful: whether the network itself may be down.
    """

    def __init__(self, detail: str, *, may_pass: bool = False, wait: float = 0.0, is_doubtful: bool = False) -> None:
        super().__init__(detail)
        self.may_pass, self.wait, self.is_doubtful = may_pass, wait, is_doubtful


def _note_answer() -> None:
    """Records a response from a host or a name server, for all threads."""
    global _answered
    _answered = time.monotonic()


class _PrivateAddressError(Exception):
    """A host name resolves to an address that the request does not allow."""


class _Checked:
    """Resolves a name once, and connects to a checked address: a second lookup may return another address.

    Certificates are checked against the host of the URL, whatever the address. `_new_conn` and `_dns_host` are private
    names of urllib3; setup.py allows the tested versions only.
    """

    _dns_host: str

    def _new_conn(self) -> socket.socket:
        deadline = time.monotonic() + _CONNECT_SECONDS
        name = self._dns_host
        try:
            addresses = _find_addresses(name, self.port)  # type: ignore[attr-defined]
            for number, address in enumerate(addresses, 1):
                self._dns_host = address
                try:
                    connected: socket.socket = super()._new_conn()  # type: ignore[misc]
                    return connected
                except (ConnectTimeoutError, NewConnectionError):
                    if number == len(addresses) or time.monotonic() >= deadline:
                        raise
        except socket.gaierror as error:
            raise NameResolutionError(name, self, error) from error  # type: ignore[arg-type]
        finally:
            self._dns_host = name
        raise AssertionError


def _find_addresses(name: str, port: int) -> list[str]:
    """Returns the addresses of a name that may be connected to.

    Raises:
      _PrivateAddressError: all addresses are private, and the request does not allow them.
    """
    found = socket.getaddrinfo(name.strip("[]"), port, socket.AF_UNSPEC, socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(place[0]) for *_, place in found))
    if current_options().allow_private_addresses:
        return addresses
    public = [address for address in addresses if _is_public(address)]
    if not public:
        raise _PrivateAddressError(addresses[0])
    return public


def _is_public(text: str) -> bool:
    """Whether an address belongs to one host of the internet; an embedded IPv4 address decides for its IPv6 address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        carried = [number for network, shift in _CARRIERS if address in network for number in [int(address) >> shift]]
        if carried:
            return _is_public(str(ipaddress.IPv4Address(carried[0] & 0xFFFFFFFF)))
        if address in _LOCAL_NAT64:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


class _Http(_Checked, HTTPConnection):
    pass


class _Https(_Checked, HTTPSConnection):
    pass


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Https


@functools.lru_cache(maxsize=1)
def _pools(_process: int, _allows_private: bool) -> urllib3.PoolManager:
    """Returns the connections of a process; forked processes and other requests need their own."""
    pools = urllib3.PoolManager(num_pools=_HOSTS, maxsize=_CONNECTIONS, block=True)
    pools.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return pools


def _host(url: str) -> str:
    try:
        parsed = parse_url(url)
    except (HTTPError, ValueError) as error:
        raise StorageError(f"{shown(url)} is no URL") from error
    if not parsed.host:
        raise StorageError(f"{shown(url)} is no URL")
    return parsed.netloc or parsed.host


def _get(url: str, length: int, *, deadline: float) -> bytes:
    for _ in range(_MOST_REDIRECTS + 1):
        response = _request(url, deadline=deadline)
        try:
            target = response.get_redirect_location()
            if not target:
                return _read_answer(response, length, deadline)
            url = _join(url, target)
        finally:
            # No effect after a complete read, which has already released the connection.
            response.close()
            response.release_conn()
    raise _Failure(f"more than {_MOST_REDIRECTS} redirects")


def _join(url: str, target: str) -> str:
    """Returns the URL that a redirect leads to."""
    with contextlib.suppress(ValueError):
        joined = urljoin(url, target)
        if is_web(joined):
            return joined
    raise _Failure(f"redirected to {shown(target)}")


def _request(url: str, *, deadline: float) -> urllib3.BaseHTTPResponse:
    left = max(0.01, deadline - time.monotonic())
    try:
        response = _pools(os.getpid(), current_options().allow_private_addresses).request(
            "GET",
            url,
            headers=_HEADERS,
            redirect=False,
            retries=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, left), read=min(_READ_SECONDS, left)),
        )
    except _PrivateAddressError as error:
        _note_answer()
        raise _Failure(
            f"{_host(url)} is at the private address {error}, which tables may not use; `allow_private_addresses` "
            "permits it"
        ) from error
    except (LocationValueError, UnicodeError) as error:
        raise _Failure("no URL") from error
    except HTTPError as error:
        raise _describe(error, url) from error
    _note_answer()
    return response


def _describe(error: HTTPError, url: str) -> _Failure:
    """Converts an error of a request, and records what it says about the host."""
    host = _host(url)
    cause: Any = error.__cause__
    number = getattr(cause, "errno", None)
    if isinstance(error, NameResolutionError):
        if number in _UNKNOWN_NAME:
            _note_answer()
            return _Failure(f"there is no host {host}")
        return _Failure(f"the name {host} cannot be looked up", may_pass=True, is_doubtful=True)
    if not _is_address(parse_url(url).host or "") and isinstance(error, (ConnectTimeoutError, NewConnectionError)):
        # The name server has answered.
        _note_answer()
    if isinstance(error, NewConnectionError):
        is_refused = number not in _NO_WAY
        if is_refused:
            _note_answer()
        shown = os.strerror(number) if number else str(error)
        return _Failure(f"{host}: {shown}", may_pass=True, is_doubtful=not is_refused)
    # The remaining error types derive from it too.
    if isinstance(error, ConnectTimeoutError):
        detail = f"no connection to {host} within {_CONNECT_SECONDS:.0f} seconds"
        return _Failure(detail, may_pass=True, is_doubtful=True)
    _note_answer()
    if isinstance(error, SSLError) or isinstance(cause, ssl.SSLError):
        return _Failure(f"no encrypted connection to {host}: {error}")
    return _Failure(f"{host} does not answer: {describe_exception(error)}", may_pass=True)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _read_answer(response: urllib3.BaseHTTPResponse, length: int, deadline: float) -> bytes:
    if response.status != 200:
        raise _Failure(
            f"{response.status} {response.reason or ''}".strip(),
            may_pass=response.status in _TRIED_AGAIN,
            wait=_wait_of(response),
        )
    body, size = io.BytesIO(), 0
    try:
        while size < length:
            chunk = response.read1(min(_CHUNK_BYTES, length - size), decode_content=True)
            if not chunk:
                break
            size += body.write(chunk)
            if time.monotonic() > deadline:
                raise _Failure(f"not complete after {_MOST_SECONDS:.0f} seconds, with {size:,} bytes")
    except HTTPError as error:
        raise _Failure(f"the answer ends after {size:,} bytes: {error}", may_pass=True) from error
    # Returns the data without another copy.
    return body.getvalue()


def _wait_of(response: urllib3.BaseHTTPResponse) -> float:
    """Returns the seconds that a host asks to wait; 0 if it does not (RFC 9110, 10.2.3)."""
    try:
        return urllib3.Retry().get_retry_after(response) or 0.0
    except HTTPError:
        return 0.0
