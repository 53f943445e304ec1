"""How a command ends, for whoever called it."""

from __future__ import annotations

DONE = 0
FAILED = 1
WRONG_REQUEST = 2
# More failures than allowed, or duplicates where there may be none, of which the lists are written; what guards do
# not accept; damaged containers.
UNPUBLISHED = 3
# As shells have it: 128 and the number of SIGINT, of SIGPIPE, or of SIGTERM.
INTERRUPTED = 130
BROKEN_PIPE = 141
TERMINATED = 143
