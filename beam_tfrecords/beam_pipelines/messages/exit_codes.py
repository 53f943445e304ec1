"""Exit codes of the commands; docs/exit_codes.md has the rule, and the faults of stores."""

from __future__ import annotations

from beam_tfrecords.beam_pipelines.interrupts import Terminated
from beam_tfrecords.errors import LimitError, OutputLockedError, RequestError

DONE = 0
# The same command may succeed later.
FAILED = 1
# No attempt succeeds until somebody changes the command.
WRONG_REQUEST = 2
# More failures than allowed, or forbidden duplicates (the lists of both are written); violated guards; damaged
# containers.
UNPUBLISHED = 3
# Another build holds the output; nothing was started.
LOCKED = 4
# As in shells: 128 plus the number of SIGINT, SIGPIPE or SIGTERM.
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143

# What the summary of a run calls an error with such a code.
OUTCOMES = {
    FAILED: "failed",
    WRONG_REQUEST: "refused",
    UNPUBLISHED: "unpublished",
    LOCKED: "locked",
    INTERRUPTED: "interrupted",
    TERMINATED: "interrupted",
}


def exit_code_of(error: BaseException) -> int:
    """Returns the exit code of a command that an error ends."""
    # Help does not need the clients of stores.
    from beam_tfrecords import storage

    codes: dict[type[BaseException], int] = {
        RequestError: WRONG_REQUEST,
        storage.MissingBucketError: WRONG_REQUEST,
        LimitError: UNPUBLISHED,
        OutputLockedError: LOCKED,
        Terminated: TERMINATED,
        KeyboardInterrupt: INTERRUPTED,
    }
    return next((code for kind, code in codes.items() if isinstance(error, kind)), FAILED)
