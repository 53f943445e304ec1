"""Storage options of this process: launchers set them, and functions carry them to workers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

# Value of `requester_pays` for the credentials' own project or account.
OWN_PROJECT = "true"
# Environment variable for readers, which have no settings.
_PAYER = "BEAM_TFRECORDS_REQUESTER_PAYS"


@dataclasses.dataclass(frozen=True)
class StorageOptions:
    """How to access stores.

    Attributes:
      requester_pays: the Google Cloud project that pays for requests to requester-pays buckets, or `OWN_PROJECT`; None
        to use the environment variable.
      allow_private_addresses: whether images may come from addresses of this machine and of private networks. A table
        is data: its author must not be able to reach services in the network of the build.
      beam_arguments: command-line arguments for Beam's file systems, such as `--azure_connection_string`.
    """

    requester_pays: str | None = None
    allow_private_addresses: bool = False
    beam_arguments: tuple[str, ...] = ()

    @property
    def payer(self) -> str | None:
        """The project that pays, `OWN_PROJECT`, or None for the owner of the bucket."""
        return self.requester_pays or os.environ.get(_PAYER) or None


_current = StorageOptions()


def current_options() -> StorageOptions:
    """Returns the options of this process."""
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
    """Binds the current options to a function, which sets them first in whatever process Beam calls it.

    Bind every function that reads or writes files in a worker: workers get the options in no other way.
    """
    options = _current

    # Beam accepts only real functions, and reads the types of the wrapped one.
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        set_options(options)
        return function(*arguments, **named)

    return call
