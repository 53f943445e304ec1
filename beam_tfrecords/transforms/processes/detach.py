"""Imported last by the fork server: from then on nothing that the server or its workers print reaches the terminal.

So whoever reads the output of the launcher reads to its end when the launcher ends, whatever becomes of the server.
Workers hand what is printed to the launcher (see `output`).
"""

from __future__ import annotations

import os

_nowhere = os.open(os.devnull, os.O_RDWR)
for _number in range(3):
    os.dup2(_nowhere, _number)
if _nowhere > 2:
    os.close(_nowhere)
