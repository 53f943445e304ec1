"""Suspends a build before each change that it makes below its output, lets another one publish, and continues it.

A program: `python -m tests.core.workspace.suspended_builds REQUEST` prints a JSON object for each change. The request
is a JSON object, too:
  suspended, other: the arguments of the two builds, without their outputs.
  before: those of a build that has published into the same output earlier, or null.
  folder: for all outputs.
  first, every: which of the changes are tried; the first one after the build has its fence is 0.

There are no locks, as on NFS, and the other build finds the lease of the suspended one stale. All builds are forked
from this process, which has imported what they need.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from beam_tfrecords.beam_pipelines.commands.cli import main
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.transforms.processes import fork_server

# What Python tells its audit hooks of changes to a file system; `open` is one if it writes.
_CHANGES = ("os.link", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "open")


def _refuse_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def _suspend_before(number: int, output: str, log: Path) -> None:
    """Stops this process before a change below the output."""
    numbers = itertools.count()
    is_fenced = False

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _CHANGES or (event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)):
            return
        nonlocal is_fenced
        paths = [os.fsdecode(path) for path in arguments[:2] if isinstance(path, str | bytes)]
        if not is_fenced:
            is_fenced = event == "os.rename" and paths[1].endswith("/fence")
        elif any(path.startswith(output) for path in paths) and next(numbers) == number:
            log.write_text(f"{event} {' '.join(path.removeprefix(output) for path in paths)}")
            os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(hook)


def _fork(arguments: Sequence[str], err: Path, prepare: Callable[[], None]) -> int:
    """Starts a build in a process of its own; returns its number."""
    # The child uses the server of this process, and does not wait for it.
    fork_server._forget_servers = lambda: None
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        fork_server.start_fork_server = lambda *_: None
        with err.open("w") as file, contextlib.redirect_stderr(file), contextlib.redirect_stdout(file):
            prepare()
            code = main(["convert", *arguments, "--direct_running_mode=in_memory"])
    finally:
        os._exit(code)


def _let_everything_be_stale() -> None:
    Lease.take.__func__.__kwdefaults__["stale"] = -1.0  # type: ignore[attr-defined]


def snapshot(folder: Path) -> dict[str, str]:
    """Digests of all files but temporary ones and reports, which are no part of a dataset."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "report.html")
    named = ((str(path.relative_to(folder)), path) for path in paths)
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in named if ".build/" not in name}


def _try(number: int, request: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    """Suspends a build before one change; None if it makes fewer."""
    output = folder / "out"
    if request["before"]:
        assert main(["convert", *request["before"], f"--output={output}", "--direct_running_mode=in_memory"]) == 0
    before = snapshot(output).get("_SUCCESS")
    files = [folder / name for name in ("change", "suspended", "other")]
    first = _fork(
        [*request["suspended"], f"--output={output}"],
        files[1],
        lambda: _suspend_before(number, str(output), files[0]),
    )
    status = os.waitpid(first, os.WUNTRACED)[1]
    if not os.WIFSTOPPED(status):
        return None
    try:
        successes = {name: digest for name, digest in snapshot(output).items() if name.endswith("_SUCCESS")}
        was_published = any(digest != before for digest in successes.values())
        second = _fork([*request["other"], f"--output={output}"], files[2], _let_everything_be_stale)
        other = os.waitstatus_to_exitcode(os.waitpid(second, 0)[1])
        published = snapshot(output)
    finally:
        os.kill(first, signal.SIGCONT)
        status = os.waitpid(first, 0)[1]
    return {
        "change": files[0].read_text(),
        "was_published": was_published,
        "codes": [os.waitstatus_to_exitcode(status), other],
        "errors": [file.read_text() for file in files[1:]],
        "published": published,
        "left": snapshot(output),
    }


def run(request: dict[str, Any]) -> None:
    """Tries all changes."""
    fcntl.flock = _refuse_locks  # type: ignore[assignment]
    root = Path(request["folder"])
    # Imports all that a build needs.
    words = [*request["suspended"], f"--output={root / 'first'}", "--direct_running_mode=in_memory"]
    assert main(["convert", *words]) == 0
    for number in itertools.count(request["first"], request["every"]):
        folder = root / str(number)
        folder.mkdir()
        tried = _try(number, request, folder)
        if tried is None:
            return
        print(json.dumps({"number": number, **tried}), flush=True)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
