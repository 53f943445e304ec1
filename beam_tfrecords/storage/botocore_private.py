"""Accesses private attributes of botocore; no other module does.

`tests/integration/test_private_names.py` fails when a version changes it, and setup.py allows the tested versions only.
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from typing import Any

from botocore import credentials
from botocore.session import Session


def start_credential_processes_by(session: Session, popen: type[subprocess.Popen[bytes]]) -> None:
    """Starts each `credential_process` with another class, also in a role's source profile."""
    found = session.get_component("credential_provider").providers
    for role in (one for one in found if isinstance(one, credentials.AssumeRoleProvider)):
        builder = role._profile_provider_builder
        builder._create_process_provider = functools.partial(_create, builder._create_process_provider, popen)
    for provider in (one for one in found if isinstance(one, credentials.ProcessProvider)):
        provider._popen = popen


def _create(create: Callable[[str], Any], popen: type[subprocess.Popen[bytes]], profile_name: str) -> Any:
    provider = create(profile_name)
    provider._popen = popen
    return provider


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
