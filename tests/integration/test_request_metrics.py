"""What a build says that it asked of object stores is what they were asked for."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import storage
from beam_tfrecords.storage.request_metrics import KINDS
from tests.integration.servers import gcs, s3

pytestmark = pytest.mark.nightly

PHOTOS = sorted((Path(__file__).parents[1] / "data/photos").rglob("*.jpg"))
COMMAND = str(Path(sys.executable).with_name("beam-tfrecords"))


@pytest.fixture(params=["gs", "s3"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A service with all photos in SCHEME://photos, and the empty bucket SCHEME://datasets."""
    start = {"gs": gcs.gcs_server, "s3": s3.s3_server}[scheme]
    with start(tmp_path, buckets=("photos", "datasets")) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        for number, path in enumerate(PHOTOS):
            storage.write_bytes(f"{scheme}://photos/{number % 3}/{number}.jpg", path.read_bytes())
        running.requests.clear()
        yield running


def test_requests_retries_and_bytes_are_counted(server, scheme, tmp_path):
    server.refuse("GET", "/1.jpg")
    server.refuse("GET", "%2F1.jpg")
    files = [f"--json_summary={tmp_path}/run.json", f"--metrics_file={tmp_path}/run.prom"]
    words = [f"--input={scheme}://photos", f"--output={scheme}://datasets/out", "--image_size=64", *files]
    ran = subprocess.run([COMMAND, "convert", *words], capture_output=True, text=True, check=True)
    asked = len(server.requests)
    counted = json.loads((tmp_path / "run.json").read_text())["object_store"]
    requests = {kind: counted[kind] for kind in KINDS}
    # The summary and the metrics are written when the last request is done.
    assert sum(requests.values()) == asked
    assert requests["read"] > len(PHOTOS)
    assert counted["retries"] == 1
    read = sum(path.stat().st_size for path in PHOTOS)
    assert read < counted["bytes_read"] < 2 * read
    shards = sum(entry.size for entry in storage.list_files(f"{scheme}://datasets/out") if ".tfrecord-" in entry.path)
    assert shards < counted["bytes_written"]
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("object store: "))
    assert f"object store: {asked:,} requests (" in line
    assert line.endswith(", 1 retries")
    metrics = (tmp_path / "run.prom").read_text()
    output = f'output="{scheme}://datasets/out"'
    assert f'beam_tfrecords_object_store_requests{{kind="read",{output}}} {float(requests["read"])}' in metrics
    assert f"beam_tfrecords_object_store_retries{{{output}}} 1.0" in metrics


def test_of_a_zip_archive_its_directory_and_its_images_are_read(server, scheme, tmp_path):
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("video.mp4", bytes(64 << 20))
        for number, path in enumerate(PHOTOS):
            archive.write(path, f"{number % 3}/{number}.jpg")
        archive.writestr("more.mp4", bytes(64 << 20))
    storage.write_bytes(f"{scheme}://photos/in.zip", (tmp_path / "in.zip").read_bytes())
    words = [f"--input={scheme}://photos/in.zip", f"--output={tmp_path}/out", "--image_size=64"]
    subprocess.run([COMMAND, "convert", *words, f"--json_summary={tmp_path}/run.json"], check=True)
    counted = json.loads((tmp_path / "run.json").read_text())["object_store"]
    assert counted["bytes_read"] < sum(path.stat().st_size for path in PHOTOS) + (1 << 20)
    # One request for each image; none to list it.
    assert counted["read"] < len(PHOTOS) + 20


def test_a_build_on_disk_says_nothing_of_stores(tmp_path):
    words = [f"--input={Path(__file__).parents[1]}/data/photos", f"--output={tmp_path}/out", "--image_size=32"]
    files = [f"--json_summary={tmp_path}/run.json", f"--metrics_file={tmp_path}/run.prom"]
    ran = subprocess.run([COMMAND, "convert", *words, *files], capture_output=True, text=True, check=True)
    assert "object store" not in ran.stdout
    assert json.loads((tmp_path / "run.json").read_text())["object_store"] == {}
    assert "object_store" not in (tmp_path / "run.prom").read_text()
