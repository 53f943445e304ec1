"""Exit codes of the commands; docs/exit_codes.md has the rule, and the faults of stores."""

from __future__ import annotations

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
