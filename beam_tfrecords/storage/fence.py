"""The token without which nothing is published: a build that was overtaken while it was suspended has it no more."""

from __future__ import annotations

import dataclasses
import os

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.lease import Lease


@dataclasses.dataclass(frozen=True)
class Fence:
    """What one run needs to publish; small enough for every worker.

    Unlike the lease, it stays when the launcher has ended, for the job that goes on without it.

    Attributes:
      path: the file that has the token of the run that may publish.
      token: of this run.
      job: the record of a job that needs no launcher, or None. While it is there, a missing file means nothing.
    """

    path: str
    token: str
    job: str | None = None

    @classmethod
    def take_over(cls, path: str, lease: Lease, *, is_new: bool = False) -> Fence:
        """Makes this run the one that may publish; before it looks at what the output holds.

        Args:
          path: the file.
          lease: of this run.
          is_new: whether there was no such file when this run had the lease.

        Raises:
          BuildError: the lease is lost.
        """
        fence = cls(path, os.urandom(16).hex())
        # Whoever has taken the lease since the output was new has written the file.
        if not (is_new and storage.write_new(path, fence.token.encode())):
            lease.check()
            storage.write_bytes(path, fence.token.encode())
        # Whoever has taken the lease between the two has published, or finds that it cannot.
        lease.check()
        return fence

    @classmethod
    def find(cls, path: str) -> Fence:
        """That of the run that may publish now, for who follows its job."""
        state = storage.read_state(path)
        return cls(path, state[0].decode(errors="replace") if state else "")

    def remove(self) -> None:
        """Removes the file, unless another run has taken over."""
        state = storage.read_state(self.path)
        if state is not None and state[0] == self.token.encode():
            storage.delete(self.path, version=state[1])

    def is_held(self) -> bool:
        """Whether no other run has taken over."""
        state = storage.read_state(self.path)
        # The run that took over removes the file when it has published.
        if state is None:
            return self.job is not None and storage.exists(self.job)
        return state[0] == self.token.encode()

    def check(self) -> None:
        """Checks that no other run has taken over.

        Raises:
          BuildError: one has.
        """
        if not self.is_held():
            raise BuildError(f"another build has taken over the output meanwhile: {self.path} is not that of this one")
