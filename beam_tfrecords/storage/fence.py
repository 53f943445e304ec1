"""The fencing token that publishing requires: a build loses it if another one takes over while it is suspended."""

from __future__ import annotations

import dataclasses
import math
import os

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.lease import MOMENT, Lease, now_awake

# (token file, token) -> time of the last successful check, and the version of the file then.
_seen: dict[tuple[str, str], tuple[float, str]] = {}


@dataclasses.dataclass(frozen=True)
class Fence:
    """The right of one run to publish; small enough for every worker.

    Unlike the lease, it outlives the launcher, for the job that continues without it.

    Attributes:
      path: file with the token of the run that may publish.
      token: token of this run.
    """

    path: str
    token: str

    @classmethod
    def take_over(cls, path: str, lease: Lease, *, is_new: bool = False) -> Fence:
        """Gives this run the right to publish, before the run reads the output.

        Args:
          path: the token file.
          lease: the lease of this run.
          is_new: whether the token file did not exist when this run took the lease.

        Raises:
          BuildError: the lease is lost.
        """
        fence = cls(path, os.urandom(16).hex())
        # A run that took the lease after the output was new has written the file.
        if not (is_new and storage.write_new(path, fence.token.encode())):
            lease.check()
            storage.write_bytes(path, fence.token.encode())
        _seen[path, fence.token] = now_awake(), ""
        # A run that took the lease between check and write has already published, or finds that it cannot.
        lease.check()
        return fence

    @classmethod
    def find(cls, path: str) -> Fence:
        """Returns the fence of the run that may publish now, for a launcher that follows its job."""
        state = storage.read_state(path)
        return cls(path, state[0].decode(errors="replace") if state else "")

    def remove(self) -> None:
        """Removes the token file, unless another run has taken over."""
        # If another run has taken over since the last check, the version differs.
        _, version = _seen.pop((self.path, self.token), (0.0, ""))
        if not version:
            state = storage.read_state(self.path)
            version = state[1] if state is not None and state[0] == self.token.encode() else ""
        if version:
            storage.delete(self.path, version=version)

    def is_held(self) -> bool:
        """Whether no other run has taken over."""
        state = storage.read_state(self.path)
        _seen.pop((self.path, self.token), None)
        # A run that took over removes the file after publishing.
        if state is None or state[0] != self.token.encode():
            return False
        _seen[self.path, self.token] = now_awake(), state[1]
        return True

    def is_lost(self) -> bool:
        """Whether another run has taken over and holds the token now."""
        state = storage.read_state(self.path)
        return state is not None and state[0] != self.token.encode()

    def check(self, *, is_new: bool = False) -> None:
        """Checks that no other run has taken over; in a store, a check of the last moment counts, unless `is_new`.

        Raises:
          BuildError: another run has.
        """
        seen, _ = _seen.get((self.path, self.token), (-math.inf, ""))
        if not is_new and storage.has_scheme(self.path) and now_awake() - seen < MOMENT:
            return
        if not self.is_held():
            raise BuildError(f"another build has taken over the output: {self.path} no longer belongs to this one")
