"""Who pays for requests to buckets whose owner does not: a setting of this process and of those that it starts."""

from __future__ import annotations

import os

# The value that stands for the project, or the account, of the credentials.
OWN_PROJECT = "true"
_VARIABLE = "BEAM_TFRECORDS_REQUESTER_PAYS"


def read_payer() -> str | None:
    """The project of Google Cloud that pays, `OWN_PROJECT`, or None for the owner of the bucket."""
    return os.environ.get(_VARIABLE) or None


def set_payer(payer: str | None) -> None:
    """Says who pays from now on; None leaves what the environment says."""
    if payer:
        os.environ[_VARIABLE] = payer
