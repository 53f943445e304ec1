"""Accesses private attributes of google-cloud-storage and google-api-core; no other module does.

`tests/core/stores/test_private_names.py` fails when a version changes it, and setup.py allows the tested versions only.
"""

from __future__ import annotations

from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Blob, Client
from google.cloud.storage.retry import DEFAULT_RETRY


def session_of(client: Client) -> AuthorizedSession:
    """Returns the HTTP session of a client; its `is_mtls` says whether it has a client certificate."""
    return client._http


def update_time(blob: Blob) -> str:
    """Returns the update time of a listed object as text (RFC 3339), since the property `updated` parses it slowly."""
    return str(blob._properties["updated"])


def is_transient(error: Exception) -> bool:
    """Whether the client would retry a request: after 408, 429, 5xx and lost connections."""
    return bool(DEFAULT_RETRY._predicate(error))
