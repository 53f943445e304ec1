"""The record of a run in the folder of its build, for `status`."""

from __future__ import annotations

import dataclasses
import os
import socket
import time

from beam_tfrecords.transforms.processes.descendants import is_there


@dataclasses.dataclass(frozen=True)
class Run:
    """One attempt at a build.

    Attributes:
      began: start of the attempt, in seconds since the epoch, by the clock of its machine.
      listed: number of samples; 0 if a job is still to list them.
      done_before: number of samples that earlier attempts had converted.
      refusal: message of the `RequestError` with which a job that lists the input refuses it; "" if it does not.
    """

    host: str
    process: int
    began: float
    listed: int = 0
    blocks: int = 0
    done_before: int = 0
    refusal: str = ""

    @classmethod
    def of_this_process(cls) -> Run:
        """Returns an attempt that this process makes, or leaves to a job, before the input is listed."""
        return cls(socket.gethostname(), os.getpid(), time.time())

    @property
    def launcher(self) -> str:
        """The process in words, as its lease names it."""
        return f"process {self.process} on {self.host}"

    def is_alive(self, holder: str | None) -> bool:
        """Whether the process holds the lease of the output, and, if it is on this machine, exists."""
        return holder == self.launcher and (self.host != socket.gethostname() or is_there(self.process))
