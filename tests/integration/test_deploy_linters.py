"""The scripts and Dockerfiles of deploy/, as their linters want them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.servers.processes import PROJECT

pytestmark = pytest.mark.nightly

BINARIES = Path(sys.executable).parent
SCRIPTS = sorted((PROJECT / "deploy").rglob("*.sh"))
DOCKERFILES = sorted((PROJECT / "deploy").rglob("Dockerfile"))


def relative(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


@pytest.mark.parametrize("script", SCRIPTS, ids=relative)
def test_shellcheck_finds_nothing(script):
    command = [BINARIES / "shellcheck", "--external-sources", relative(script)]
    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=relative)
def test_hadolint_finds_nothing(dockerfile):
    ran = subprocess.run([BINARIES / "hadolint", dockerfile], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")
