"""What code for other processors makes of the golden images: digests, from a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]
# Kind of result -> name -> digest.
Digests: TypeAlias = dict[str, dict[str, str]]


def make_digests(
    images: str, *, python: Sequence[str | Path] = (sys.executable,), environment: Mapping[str, str] = os.environ
) -> Digests:
    """The digests of a run of tests/core/images/make_golden_images.py.

    Args:
      images: "all" or "few": two photos and a small image.
      python: command that runs Python.
      environment: of the process.
    """
    command = [*python, "-W", "ignore", "-m", "tests.core.images.make_golden_images", f"--digests={images}"]
    made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, f"{command}: {made.stderr}"
    return json.loads(made.stdout)


def find_differences(made: Digests, expected: Digests) -> dict[str, list[str]]:
    """Kind -> names whose digests differ, or that one of both lacks."""
    found = {
        kind: [name for name in sorted(made[kind].keys() | digests) if made[kind].get(name) != digests.get(name)]
        for kind, digests in expected.items()
    }
    return {kind: names for kind, names in found.items() if names}
