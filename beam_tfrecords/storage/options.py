"""How this process reaches stores: one value, which launchers set and functions take along to workers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

# The value of `requester_pays` that stands for the project, or the account, of the credentials.
OWN_PROJECT = "true"
# What a reader, who has no settings, says in the environment.
_PAYER = "BEAM_TFRECORDS_REQUESTER_PAYS"


@dataclasses.dataclass(frozen=True)
class StorageOptions:
    """How stores are reached.

    Attributes:
      requester_pays: the project of Google Cloud that pays for requests to buckets whose owner does not, or
        `OWN_PROJECT`; None for what the environment says.
      allow_private_addresses: whether images may come from addresses of this machine and of private networks. A table
        is data: whoever wrote it must not be able to ask the services of the network that a build runs in.
      beam_arguments: arguments of a command that Beam's file systems read, such as `--azure_connection_string`.
      workers: processes that share what a bucket takes; 0 if nobody knows how many.
      began: when they began, in seconds since the epoch.
    """

    requester_pays: str | None = None
    allow_private_addresses: bool = False
    beam_arguments: tuple[str, ...] = ()
    workers: int = 0
    began: float = 0.0

    @property
    def payer(self) -> str | None:
        """The project that pays, `OWN_PROJECT`, or None for the owner of the bucket."""
        return self.requester_pays or os.environ.get(_PAYER) or None


_current = StorageOptions()


def current_options() -> StorageOptions:
    """The options of this process."""
    return _current


def set_options(options: StorageOptions) -> None:
    """Sets the options of this process, for all of its threads."""
    global _current
    _current = options


@contextlib.contextmanager
def using(options: StorageOptions) -> Iterator[None]:
    """Sets the options of this process until the end of the block."""
    before = _current
    set_options(options)
    try:
        yield
    finally:
        set_options(before)


def with_storage_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the options of now: it sets them first in whatever process Beam calls it.

    What reads or writes files in a worker is bound; a worker is told nothing else.
    """
    options = _current

    # Beam takes only functions for functions, and reads the types of this one where it is wrapped.
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        set_options(options)
        return function(*arguments, **named)

    return call
