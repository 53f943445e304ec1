"""Azurite, Microsoft's emulator of Azure Blob Storage, for `azfs://`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from azure.storage.blob import ContainerClient

from tests.integration.servers import processes

_PROGRAM = processes.PROJECT / ".cache" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
# The account that every emulator has, and its published key.
ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextlib.contextmanager
def azure_server(folder: Path, *, container: str) -> Iterator[tuple[str, ContainerClient]]:
    """Runs the service until the block ends, with one container; gives its connection string and its client.

    Args:
      folder: for the log; blobs stay in memory.
      container: created at the start.

    Raises:
      processes.ServerError: it is not installed, or did not start.
    """
    if not _PROGRAM.exists():
        raise processes.ServerError(f"{_PROGRAM} is missing; run tests/integration/install.sh")
    port = processes.free_port()
    command = [
        _PROGRAM,
        *("--blobHost=127.0.0.1", f"--blobPort={port}"),
        *("--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"),
    ]
    connection = (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_KEY};"
        f"BlobEndpoint=http://127.0.0.1:{port}/{ACCOUNT};"
    )
    with processes.running(command, port=port, log=folder / "azurite.log"):
        client = ContainerClient.from_connection_string(connection, container)
        client.create_container()
        yield connection, client
