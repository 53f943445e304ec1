"""The refusal of a request by the job that lists its input."""

from __future__ import annotations

import dataclasses

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import read_state, write_state


@dataclasses.dataclass(frozen=True)
class Refusal:
    """The message and the code of a `RequestError`, in the folder of the listing."""

    message: str
    code: str

    def write(self, folder: str) -> None:
        """Writes the refusal to the folder of the listing."""
        write_state(BuildFolder(folder).refused, self)

    def error(self) -> RequestError:
        """Returns the error."""
        return RequestError(self.message, code=self.code)


def read_refusal(folder: str) -> Refusal | None:
    """Reads the refusal in the folder of a listing; returns None if there is none."""
    return read_state(Refusal, BuildFolder(folder).refused)
