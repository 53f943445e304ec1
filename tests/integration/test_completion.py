"""Completion in shells that a person types into: each runs in a terminal of its own, and TAB is pressed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

BEAM_TFRECORDS = Path(sys.executable).parent / "beam-tfrecords"
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
_LOAD = {
    "bash": "source {script}",
    "zsh": 'autoload -Uz compinit; compinit -u -d {folder}/dump; bindkey -e; eval "$(<{script})"',
    "fish": "source {script}",
}


class Terminal:
    """A shell in a pseudo-terminal."""

    def __init__(self, shell: str, folder: Path) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "TERM": "dumb",
            "PS1": "> ",
            "LC_ALL": "C.UTF-8",
        }
        self._process, self._fd = pty.fork()
        if not self._process:
            os.chdir(folder)
            os.execvpe(SHELLS[shell][0], SHELLS[shell], environment)

    def read(self, until: str, *, seconds: float = 30) -> str:
        """Returns what the shell prints up to a text that a line begins with."""
        text, end = "", time.monotonic() + seconds
        while not re.search(rf"[\r\n]{until}", text):
            assert time.monotonic() < end, text
            if select.select([self._fd], [], [], 0.2)[0]:
                text += os.read(self._fd, 65536).decode(errors="replace")
        return text

    def rest(self, seconds: float) -> None:
        """Waits until the shell has printed nothing for some time."""
        while select.select([self._fd], [], [], seconds)[0]:
            os.read(self._fd, 65536)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def close(self) -> None:
        os.close(self._fd)
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)


@pytest.fixture(scope="module", params=SHELLS)
def terminal(request, tmp_path_factory):
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    folder = tmp_path_factory.mktemp(shell)
    for name in ("home", "photos/cats", "with space", "bin"):
        (folder / name).mkdir(parents=True)
    for name in ("photos/labels.csv", "flowers.yaml"):
        (folder / name).touch()
    script = subprocess.run([BEAM_TFRECORDS, "completion", shell], capture_output=True, text=True, check=True).stdout
    (folder / "script").write_text(script)
    terminal = Terminal(shell, folder)
    terminal.rest(2)
    terminal.type(_LOAD[shell].format(script=folder / "script", folder=folder) + "; echo re''ady\r")
    terminal.read("ready")
    terminal.rest(1)
    yield terminal
    terminal.close()


CASES = {
    "beam-tfrecords conv": "convert",
    "beam-tfrecords convert pho": "photos/",
    "beam-tfrecords convert photos/la": "photos/labels.csv",
    "beam-tfrecords convert photos/ --image_si": "--image_size",
    "beam-tfrecords convert --input=pho": "--input=photos/",
    "beam-tfrecords convert --input pho": "photos/",
    "beam-tfrecords convert --input=train=pho": "--input=train=photos/",
    "beam-tfrecords convert --input=photos/la": "--input=photos/labels.csv",
    "beam-tfrecords convert --output=pho": "--output=photos/",
    "beam-tfrecords convert --image_encoding=jp": "--image_encoding=jpeg",
    "beam-tfrecords convert --image_encoding jp": "jpeg",
    "beam-tfrecords convert --source=webd": "--source=webdataset",
    "beam-tfrecords convert photos/ out --resize_mode=cr": "--resize_mode=crop",
    "beam-tfrecords convert --spec=flo": "--spec=flowers.yaml",
    "beam-tfrecords convert --label_column=flo": "--label_column=flowers.yaml",
    "beam-tfrecords convert wit": "with space/",
    "beam-tfrecords verify pho": "photos/",
    "beam-tfrecords verify --dataset=pho": "--dataset=photos/",
    "beam-tfrecords export photos/ --to=pho": "--to=photos/",
}


@pytest.mark.parametrize("typed", CASES)
def test_tab_completes(terminal, typed):
    # The first word of the line becomes `echo`, so that the shell prints what it has completed.
    terminal.type(typed + "\t")
    terminal.rest(0.7)
    terminal.type("\x01echo done:; echo 'beg''in' \r")
    shown = terminal.read("begin.*[\r\n]")
    terminal.rest(0.3)
    words = [line for line in shown.splitlines() if line.startswith("begin")][-1].split(" ", 2)[2].strip()
    # zsh takes the slash of a folder back when something else is typed.
    assert words.rstrip("/").endswith(CASES[typed].rstrip("/")), shown
