"""Detaches the fork server and its workers from the launcher's output. The server imports this module last.

So a reader of the launcher's output reaches its end when the launcher ends, even if the server still runs. Workers send
their output to the launcher (see `output`).
"""

from __future__ import annotations

import os

_nowhere = os.open(os.devnull, os.O_RDWR)
for _number in range(3):
    os.dup2(_nowhere, _number)
if _nowhere > 2:
    os.close(_nowhere)
