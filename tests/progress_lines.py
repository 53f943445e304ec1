"""What a program says beside its progress.

Without a terminal it has a line of progress every ten seconds. On a busy machine, that comes to any build.
"""

from __future__ import annotations

import re

_LINE = re.compile(
    r"listing .+"
    r"|listed [\d,]+ of [\d,]+ (containers|pieces of the input)"
    r"|[\d,]+ samples? in [\d,]+ blocks?, starting workers"
    r"|[\d,]+ of [\d,]+ samples? \(\d+%\), .+"
    r"|.+; [\d,]+ samples?, [\d,]+ failed"
)


def without_progress(err: str) -> str:
    """Standard error without the lines of progress."""
    return "".join(line for line in err.splitlines(keepends=True) if not _LINE.fullmatch(line.rstrip("\n")))
