"""Beam's Prism runner, as a server that jobs are submitted to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.integration.servers import processes


@contextlib.contextmanager
def prism_server(folder: Path) -> Iterator[str]:
    """Runs Prism on a free loopback port and yields its job endpoint (`127.0.0.1:port`).

    A pipeline reaches it with `--runner=PortableRunner --job_endpoint=ENDPOINT` and an `--environment_type`.

    Args:
      folder: where its log goes.
    """
    port = processes.free_port()
    command: list[str | Path] = [
        processes.binary("prism"),
        f"--job_port={port}",
        "--serve_http=false",
        "--log_kind=text",
    ]
    with processes.running(command, port=port, log=folder / "prism.log"):
        yield f"127.0.0.1:{port}"
