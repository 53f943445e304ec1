"""Accesses private attributes of urllib3; no other module does.

`tests/test_private_names.py` fails when a version changes it, and setup.py allows the tested versions only.
"""

from __future__ import annotations

import abc
import socket


class OpensOwnSocket(abc.ABC):
    """A mixin for urllib3's connections: a subclass chooses the address to connect to.

    Certificates are checked against the host of the URL, whatever the address.
    """

    _dns_host: str

    @abc.abstractmethod
    def open_socket(self, name: str) -> socket.socket:
        """Connects to a host; a subclass calls `connect_to` with one of its addresses."""

    def connect_to(self, address: str) -> socket.socket:
        """Connects to an address.

        Raises:
          ConnectTimeoutError, NewConnectionError: the address does not answer.
        """
        name = self._dns_host
        self._dns_host = address
        try:
            connected: socket.socket = super()._new_conn()  # type: ignore[misc]
        finally:
            self._dns_host = name
        return connected

    def _new_conn(self) -> socket.socket:
        return self.open_socket(self._dns_host)
