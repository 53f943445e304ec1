"""Exit codes of the commands."""

from __future__ import annotations

DONE = 0
FAILED = 1
WRONG_REQUEST = 2
# More failures than allowed, or forbidden duplicates (the lists of both are written); violated guards; damaged
# containers.
UNPUBLISHED = 3
# As in shells: 128 plus the number of SIGINT, SIGPIPE or SIGTERM.
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143
