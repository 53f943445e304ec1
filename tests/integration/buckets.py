"""Buckets of running services, and builds from and to them in processes of their own."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.integration.servers import gcs, s3
from tests.integration.servers.proxy import StorageServer

PROGRAM = Path(sys.executable).with_name("beam-tfrecords")
SCHEMES = ("gs", "s3")
BUCKETS = ("photos", "tables", "datasets")
EVERY_METHOD = ("GET", "HEAD", "PUT", "POST", "DELETE")
# Scheme -> the service of `services`.
_running: dict[str, Any] = {}
# Messages of the libraries' clients, which no message of ours may contain.
RAW = re.compile(r"Traceback|https?://[^ ]*/o[/?]|<[A-Za-z]|\{|An error occurred|botocore|google\.")


@contextlib.contextmanager
def services(
    folder: Path, *schemes: str, s3_program: str = "moto", names: tuple[str, ...] = BUCKETS
) -> Iterator[dict[str, StorageServer]]:
    """Runs services with empty buckets of these names, for this process and those that it starts: scheme -> service."""
    serve: dict[str, Callable[..., Any]] = {
        "gs": gcs.gcs_server,
        "s3": functools.partial(s3.s3_server, program=s3_program),
    }
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        servers: dict[str, StorageServer] = {}
        for scheme in schemes:
            servers[scheme] = stack.enter_context(serve[scheme](folder, buckets=names))
            for name, value in servers[scheme].environment.items():
                patch.setenv(name, value)
        patch.setattr(sys.modules[__name__], "_running", servers)
        yield servers


def write(path: str, data: bytes) -> None:
    """Writes an object by a client of its own."""
    scheme, bucket, name = _split(path)
    if scheme == "gs":
        _running[scheme].client().bucket(bucket).blob(name).upload_from_string(data)
    else:
        _running[scheme].client().put_object(Bucket=bucket, Key=name, Body=data)


def read(path: str) -> bytes:
    """Reads an object, or a file."""
    scheme, bucket, name = _split(path)
    if not scheme:
        return Path(path).read_bytes()
    if scheme == "gs":
        return bytes(_running[scheme].client().bucket(bucket).blob(name).download_as_bytes())
    return bytes(_running[scheme].client().get_object(Bucket=bucket, Key=name)["Body"].read())


def delete(path: str) -> None:
    """Deletes an object."""
    scheme, bucket, name = _split(path)
    if scheme == "gs":
        _running[scheme].client().bucket(bucket).blob(name).delete()
    else:
        _running[scheme].client().delete_object(Bucket=bucket, Key=name)


def versions_of(root: str) -> dict[str, Any]:
    """Names of all files below a folder, sorted -> what tells one content of an object from another."""
    scheme, bucket, prefix = _split(f"{root}/")
    if not scheme:
        return {path.relative_to(root).as_posix(): None for path in sorted(Path(root).rglob("*")) if path.is_file()}
    client = _running[scheme].client()
    if scheme == "gs":
        found = {blob.name: blob.generation for blob in client.list_blobs(bucket, prefix=prefix)}
    else:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        found = {one["Key"]: one["ETag"] for page in pages for one in page.get("Contents", ())}
    return {name.removeprefix(prefix): found[name] for name in sorted(found)}


def _split(path: str) -> tuple[str, str, str]:
    """Scheme, bucket and name of an object; of a file nothing."""
    scheme, mark, rest = path.partition("://")
    bucket, _, name = rest.partition("/")
    return (scheme, bucket, name) if mark else ("", "", "")


def upload(folder: Path, target: str) -> None:
    """Copies the files below a folder into a bucket."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    with ThreadPoolExecutor(16) as pool:
        names = [f"{target}/{path.relative_to(folder).as_posix()}" for path in files]
        for _ in pool.map(write, names, map(Path.read_bytes, files)):
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
    return list(versions_of(output))


def content_of(output: str) -> dict[str, Any]:
    """File -> its bytes; of an index the rows, and of a manifest the values, that do not say where the input was.

    Of a report, which shows the settings, the pictures.
    """
    content: dict[str, Any] = {}
    for name in files_of(output):
        data = read(f"{output}/{name}")
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


def answer(server: Any, methods: Sequence[str], contains: str, status: int, said: tuple[str, str]) -> None:
    """Answers requests with an error of the service for ever: its code, or Google's reason, and its sentence."""
    code, sentence = said
    if isinstance(server, gcs.GcsServer):
        error: dict[str, Any] = {"code": status, "message": sentence}
        text = json.dumps({"error": {**error, **({"errors": [{"reason": code}]} if code else {})}})
    else:
        text = f"<Error><Code>{code}</Code><Message>{sentence}</Message></Error>"
    for method in methods:
        server.answer(method, contains, status=status, text=text, times=10_000)
