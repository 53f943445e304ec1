"""Accesses private attributes of botocore; no other module does.

`tests/core/stores/test_private_names.py` fails when a version changes it, and setup.py allows the tested versions only.
"""

from __future__ import annotations

from typing import Any


def follow_no_redirect(context: dict[str, Any]) -> None:
    """Makes a request end with a redirect response, which the client would follow.

    To follow a redirect that names no region, the client sends HeadBucket. It would follow a redirect of HeadBucket in
    the same way, endlessly.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True


def connections_to(client: Any, url: str) -> Any:
    """Returns the connection pool of a client for a URL; None if the client uses a proxy."""
    session = client._endpoint.http_session
    return None if session._proxy_config.proxy_url_for(url) else session._manager.connection_from_url(url)
