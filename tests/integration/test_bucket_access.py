"""Buckets that are not there, or may not be listed, read, written or cleaned: what a build says, in one line."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from tests.integration import buckets
from tests.integration.servers import gcs, s3
from tests.integration.servers.many_objects import many_objects
from tests.progress_lines import without_progress

pytestmark = pytest.mark.nightly

PHOTOS = sorted((Path(__file__).parents[1] / "data/photos").rglob("*.jpg"))[:6]
COMMAND = str(Path(sys.executable).with_name("beam-tfrecords"))
PERMISSIONS = {
    "gs": ("storage.objects.list", "storage.objects.get", "storage.objects.create", "storage.objects.delete"),
    "s3": ("s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"),
}
NAMES_OF_CREDENTIALS = (
    "GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE",
)  # fmt: skip


@pytest.fixture(params=["gs", "s3"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A service with six photos below SCHEME://photos/in, and the empty bucket SCHEME://datasets."""
    start = {"gs": gcs.gcs_server, "s3": s3.s3_server}[scheme]
    with start(tmp_path, buckets=("photos", "datasets")) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        for number, path in enumerate(PHOTOS):
            storage.write_bytes(f"{scheme}://photos/in/cat/{number}.jpg", path.read_bytes())
        yield running


def run(*words: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *words], env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )


def convert(scheme: str, *words: str, output: str = "datasets/out") -> tuple[int, str]:
    """Exit code of a build from bucket to bucket, and the one line that it says."""
    ran = run(
        "convert",
        f"--input={scheme}://photos/in",
        f"--output={scheme}://{output}",
        "--image_size=32",
        "--class_names=cat",
        "--quiet",
        *words,
    )
    assert not buckets.RAW.search(ran.stderr), ran.stderr
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    return ran.returncode, ran.stderr.strip()


def refuse(server: Any, what: str, *, status: int = 403) -> None:
    """Refuses requests that list, read, write or delete objects, for ever."""
    requests = {
        "list": [("GET", "/b/photos/o"), ("GET", "list-type")]
        if isinstance(server, gcs.GcsServer)
        else [("GET", "list-type")],
        "read": [("GET", ".jpg"), ("HEAD", ".jpg")],
        "write": [("POST", "/upload"), ("PUT", "")],
        "parts": [("POST", "upload/storage/v1/b/datasets/o"), ("PUT", "/parts/")],
        "delete": [("POST", "/batch"), ("DELETE", ""), ("POST", "?delete")],
    }[what]
    for method, contains in requests:
        answer_error(server, method, contains, status=status)


def answer_error(server: Any, method: str, contains: str = "", *, status: int) -> None:
    code = {} if isinstance(server, gcs.GcsServer) else {"code": {401: "Unauthorized", 403: "AccessDenied"}[status]}
    server.refuse(method, contains, status=status, times=10_000, **code)


def test_an_output_in_a_bucket_that_is_not_there(server, scheme):
    code, line = convert(scheme, output="nothing-here/out")
    assert code == 2
    assert "there is no bucket 'nothing-here'" in line


def test_credentials_that_are_refused(server, scheme):
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        answer_error(server, method, status=401)
    code, line = convert(scheme)
    assert code == 1
    assert "credentials are refused" in line


@pytest.mark.parametrize(("what", "place"), [("list", 0), ("read", 1), ("write", 2)])
def test_a_permission_that_is_missing_is_named(server, scheme, what, place):
    refuse(server, what)
    code, line = convert(scheme)
    assert code == 1
    assert f"access denied: the credentials lack the permission {PERMISSIONS[scheme][place]}" in line


def test_who_may_not_delete_gets_a_dataset_and_is_told_what_stays(server, scheme):
    refuse(server, "delete")
    code, line = convert(scheme)
    assert code == 0
    assert f"note: the files in {scheme}://datasets/out/.build stay" in line
    assert f"lack the permission {PERMISSIONS[scheme][3]}" in line
    assert run("verify", f"--dataset={scheme}://datasets/out").returncode == 0
    assert list(storage.list_files(f"{scheme}://datasets/out/.build"))


def test_who_may_not_delete_cannot_replace_a_dataset(server, scheme):
    words = ["convert", f"--input={scheme}://photos/in", f"--output={scheme}://datasets/out", "--quiet"]
    assert run(*words, "--image_size=32", "--class_names=cat").returncode == 0
    before = {entry.path: entry.version for entry in storage.list_files(f"{scheme}://datasets/out")}
    refuse(server, "delete")
    code, line = convert(scheme, "--overwrite", "--jpeg_quality=80")
    assert code == 1, line
    assert f"lack the permission {PERMISSIONS[scheme][3]}" in line
    after = {entry.path: entry.version for entry in storage.list_files(f"{scheme}://datasets/out")}
    assert {path: version for path, version in after.items() if "/.build/" not in path} == before


@pytest.fixture
def no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """No credentials anywhere, and metadata servers that never answer: their socket takes connections unseen."""
    for name in NAMES_OF_CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for name, value in {
            "HOME": str(tmp_path),
            "CLOUDSDK_CONFIG": str(tmp_path),
            "GCE_METADATA_IP": address,
            "GCE_METADATA_HOST": address,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{address}",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield silent


def count_connections(listening: socket.socket) -> int:
    """How many connections wait at a socket."""
    listening.setblocking(False)
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listening.accept()[0].close()
            count += 1
    return count


def endpoint_of(scheme: str, endpoint: str) -> dict[str, str]:
    return {"API_ENDPOINT_OVERRIDE" if scheme == "gs" else "AWS_ENDPOINT_URL": endpoint}


def test_without_credentials_a_private_bucket_is_refused_soon(tmp_path, scheme, no_credentials):
    start = {"gs": gcs.gcs_server, "s3": s3.s3_server}[scheme]
    with start(tmp_path, buckets=("photos",)) as server:
        answer_error(server, "GET", status=401 if scheme == "gs" else 403)
        words = ["convert", f"--input={scheme}://photos", f"--output={tmp_path}/out"]
        ran = run(*words, environment=endpoint_of(scheme, server.endpoint))
    assert ran.returncode == 1
    (line,) = without_progress(ran.stderr).splitlines()
    assert re.search(r"//photos: access denied, and no (Google|AWS) credentials were found; ", line)
    # Google's library would ask three times, for 12 s; we ask once, for 3 s. Amazon's asks for a token and then for
    # credentials.
    assert count_connections(no_credentials) == {"gs": 1, "s3": 2}[scheme]


@pytest.mark.usefixtures("no_credentials")
def test_without_credentials_a_public_bucket_is_read(tmp_path, scheme):
    with many_objects(tmp_path, count=3, layout="folders") as endpoint:
        words = ["convert", f"--input={scheme}://photos", f"--output={tmp_path}/out", "--image_size=32"]
        ran = run(*words, environment=endpoint_of(scheme, endpoint))
    assert (ran.returncode, without_progress(ran.stderr)) == (0, "")


@pytest.fixture
def paid(scheme: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a store whose requesters pay."""
    credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    with many_objects(tmp_path, count=3, layout="folders", pays=True) as endpoint:
        yield {"STORAGE_EMULATOR_HOST": endpoint, "AWS_ENDPOINT_URL": endpoint, **credentials}


def test_a_requester_pays_by_a_setting(paid, scheme, tmp_path):
    words = ["convert", f"--input={scheme}://photos", f"--output={tmp_path}/out", "--image_size=32"]
    ran = run(*words, environment=paid)
    assert ran.returncode == 1
    wanted = {"gs": "the bucket lets the requester pay; use --requester_pays=PROJECT", "s3": "s3:ListBucket"}
    assert wanted[scheme] in ran.stderr.splitlines()[-1]
    ran = run(*words, "--requester_pays=my-project", environment=paid)
    assert (ran.returncode, without_progress(ran.stderr)) == (0, "")


def test_the_project_of_the_credentials_pays(paid, scheme, tmp_path):
    words = ["convert", f"--input={scheme}://photos", f"--output={tmp_path}/out", "--image_size=32"]
    ran = run(*words, "--requester_pays=true", environment={**paid, "GOOGLE_CLOUD_PROJECT": "my-project"})
    assert (ran.returncode, without_progress(ran.stderr)) == (0, "")
    assert run(*words, "--requester_pays=No Project", environment=paid).returncode == 2


def test_a_store_that_never_answers_ends_with_the_time_that_was_waited(server, scheme, monkeypatch):
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "1.5")
    for method in ("GET", "HEAD"):
        server.refuse(method, "", times=1000)
    begin = time.monotonic()
    with pytest.raises(BuildError) as raised:
        storage.read_bytes(f"{scheme}://photos/in/cat/0.jpg")
    said = re.fullmatch(rf"{scheme}://photos/in/cat/0\.jpg does not answer: (.*), for (\d+) s", str(raised.value))
    assert said
    assert (
        said[1]
        == {
            "gs": "503 Service Unavailable: refused by the test",
            "s3": "SlowDown: refused by the test",
        }[scheme]
    )
    assert 1 <= int(said[2]) <= time.monotonic() - begin + 1
