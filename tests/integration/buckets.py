"""Buckets of running services, and builds from and to them in processes of their own."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from beam_tfrecords import storage
from tests.integration.servers import gcs, s3
from tests.integration.servers.proxy import StorageServer

PROGRAM = Path(sys.executable).with_name("beam-tfrecords")
SCHEMES = ("gs", "s3")
BUCKETS = ("photos", "tables", "datasets")
# Messages of the libraries' clients, which no message of ours may contain.
RAW = re.compile(r"Traceback|https?://[^ ]*/o[/?]|<[A-Za-z]|\{|An error occurred|botocore|google\.")


@contextlib.contextmanager
def services(folder: Path, *schemes: str, s3_program: str = "moto") -> Iterator[dict[str, StorageServer]]:
    """Runs services with empty `BUCKETS`, for this process and those that it starts: scheme -> service."""
    serve: dict[str, Callable[..., Any]] = {
        "gs": gcs.gcs_server,
        "s3": functools.partial(s3.s3_server, program=s3_program),
    }
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        servers: dict[str, StorageServer] = {}
        for scheme in schemes:
            servers[scheme] = stack.enter_context(serve[scheme](folder, buckets=BUCKETS))
            for name, value in servers[scheme].environment.items():
                patch.setenv(name, value)
        yield servers


def upload(folder: Path, target: str) -> None:
    """Copies the files below a folder into a bucket."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    with ThreadPoolExecutor(16) as pool:
        names = [f"{target}/{path.relative_to(folder).as_posix()}" for path in files]
        for _ in pool.map(storage.write_bytes, names, map(Path.read_bytes, files)):
            pass


def start(*words: object, **options: Any) -> subprocess.Popen[str]:
    """Starts `convert`."""
    # In a process of its own: worker processes keep the endpoint of the first build of their parent.
    command = [str(PROGRAM), "convert", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def build(*words: object) -> str:
    """Runs `convert` to its good end; returns what it printed."""
    process = start(*words)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def verify(dataset: str) -> None:
    """Checks that `verify` finds nothing."""
    ran = subprocess.run([PROGRAM, "verify", f"--dataset={dataset}"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def files_of(output: str) -> list[str]:
    """Names of all files below an output, sorted."""
    return sorted(entry.path[len(output) + 1 :] for entry in storage.list_files(output, literal=True))


def content_of(output: str) -> dict[str, Any]:
    """File -> its bytes; of an index the rows, and of a manifest the values, that do not say where the input was.

    Of a report, which shows the settings, the pictures.
    """
    content: dict[str, Any] = {}
    for name in files_of(output):
        data = storage.read_bytes(f"{output}/{name}")
        if name.endswith(".parquet"):
            table = pq.read_table(io.BytesIO(data))
            content[name] = table.drop_columns(["uri", "fingerprint", "sample_hash"]).to_pylist()
        elif name == "manifest.json":
            values = json.loads(data)
            content[name] = {key: values[key] for key in ("listed", "splits", "failure_reasons")}
        elif name == "report.html":
            content[name] = re.findall(rb'src="(data:[^"]*)"', data)
        elif name != "_SUCCESS":
            content[name] = data
    return content


def uploads_left(server: StorageServer) -> list[Any]:
    """Unfinished multipart uploads of S3."""
    client = server.client()  # type: ignore[attr-defined]
    return [one for bucket in BUCKETS for one in client.list_multipart_uploads(Bucket=bucket).get("Uploads", ())]
