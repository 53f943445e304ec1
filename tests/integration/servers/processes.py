"""What all servers need: where programs lie, free ports, starting, waiting and ending."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
BINARIES = PROJECT / ".cache" / "bin"
_END_TIMEOUT = 10.0


class ServerError(RuntimeError):
    """A server did not start, or did not do what the test asked of it."""


def binary(name: str) -> Path:
    """Path of an installed Go program.

    Raises:
      ServerError: it is not installed.
    """
    path = BINARIES / name
    if not path.exists():
        raise ServerError(f"{path} is missing; run tests/integration/install.sh")
    return path


def free_port() -> int:
    """A loopback port that nobody listens on now; the next caller may get it too, so use it at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], *, what: str, seconds: float = 300.0) -> None:
    """Polls until the condition holds; a busy machine takes minutes for what takes seconds.

    Raises:
      ServerError: it did not within the time; `what` names what was waited for.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Process numbers of the children of a process, whichever of its threads has started them."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that has ended and that nobody asks for has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def listens(port: int) -> bool:
    """Whether a loopback port takes connections."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running(
    command: Sequence[str | Path], *, port: int, log: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a server until the block ends; enters the block when `port` takes connections.

    Raises:
      ServerError: it ended before, or did not listen in time; the message has the end of its log.
    """
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
        )
    try:
        wait_until(lambda: process.poll() is not None or listens(port), what=f"port {port} of {command[0]}")
        if process.poll() is not None:
            tail = log.read_text(errors="replace")[-2000:]
            raise ServerError(f"{command[0]} ended with status {process.returncode}: {tail}")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
