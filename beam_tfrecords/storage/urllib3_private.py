"""Touches what urllib3 has no public name for; no other module does.

`tests/test_private_names.py` fails when a version changes it, and setup.py allows the tested versions only.
"""

from __future__ import annotations

import socket


class OpensOwnSocket:
    """Mixin for urllib3's connections: a subclass says which addresses a connection is opened to.

    Certificates are checked against the host of the URL, whatever the address.
    """

    _dns_host: str

    def open_socket(self, name: str) -> socket.socket:
        """Connects to a host; a subclass calls `connect_to` with an address of it."""
        raise NotImplementedError

    def connect_to(self, address: str) -> socket.socket:
        """Connects to an address.

        Raises:
          ConnectTimeoutError, NewConnectionError: it does not answer.
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
