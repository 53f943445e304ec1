"""Whether images may come from addresses of this machine and of private networks.

A setting of this process and of those that it starts. A table is data: whoever wrote it must not be able to ask the
services of the network that a build runs in.
"""

from __future__ import annotations

import os

_VARIABLE = "BEAM_TFRECORDS_PRIVATE_ADDRESSES"


def are_private_addresses_allowed() -> bool:
    """Whether they may."""
    return bool(os.environ.get(_VARIABLE))


def allow_private_addresses(allowed: bool) -> None:
    """Says whether they may, from now on."""
    os.environ[_VARIABLE] = "true" if allowed else ""
