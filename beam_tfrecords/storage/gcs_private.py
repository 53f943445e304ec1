"""Touches what google-cloud-storage and google-api-core have no public name for; no other module does.

`tests/integration/test_private_names.py` fails when a version changes it, and setup.py allows the tested versions only.
"""

from __future__ import annotations

from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Blob, Client
from google.cloud.storage.retry import DEFAULT_RETRY


def session_of(client: Client) -> AuthorizedSession:
    """Returns the HTTP session by which a client sends its requests; `is_mtls` says whether it has a certificate."""
    return client._http


def update_time(blob: Blob) -> str:
    """Returns when a listed object was last changed, as the store writes it (RFC 3339): `updated` parses it slowly."""
    return str(blob._properties["updated"])


def is_transient(error: Exception) -> bool:
    """Whether the client would send a request again: after 408, 429, 5xx and lost connections."""
    return bool(DEFAULT_RETRY._predicate(error))
