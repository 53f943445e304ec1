"""How many requests a build sends to a store, and what it says of them."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from tests.integration import buckets
from tests.integration.servers.proxy import StorageServer

pytestmark = pytest.mark.nightly

COUNT = 2000
# Requests an image. Some 90 are those of any build: of its lease, fence, blocks and metadata.
MOST = 1.05
# More would be more than 1.2 requests for each of 200 images, which gs:// keeps.
MOST_OF_FEW = {"gs": 40, "s3": 44}
CLASSES = 10


@pytest.fixture(scope="module", params=buckets.SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def names() -> list[str]:
    return [f"{number % CLASSES}/{number:04}.jpg" for number in range(COUNT)]


@pytest.fixture(scope="module")
def server(scheme: str, names: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageServer]:
    """A service with 2,000 small images in its bucket `photos`."""
    file = io.BytesIO()
    Image.new("RGB", (64, 48), "teal").save(file, "JPEG")
    with buckets.services(tmp_path_factory.mktemp(scheme), scheme) as running, ThreadPoolExecutor(16) as pool:
        # Distinct bytes behind the end of the image.
        images = [file.getvalue() + name.encode() for name in names]
        list(pool.map(buckets.write, [f"{scheme}://photos/{name}" for name in names], images))
        yield running[scheme]


def test_a_build_sends_few_more_requests_than_there_are_images(server, scheme):
    _build_with_few(server, f"--input={scheme}://photos", f"--output={scheme}://datasets/out", most=MOST * COUNT)


def test_a_small_build_sends_few_requests_for_all_but_images(server, scheme):
    few = 200
    places = [(f"{number % CLASSES}/{number:04}.jpg", f"{number % CLASSES}/{number}.jpg") for number in range(few)]
    with ThreadPoolExecutor(16) as pool:
        images = pool.map(buckets.read, [f"{scheme}://photos/{place}" for place, _ in places])
        list(pool.map(buckets.write, [f"{scheme}://tables/few/{name}" for _, name in places], images))
    words = [f"--input={scheme}://tables/few", f"--output={scheme}://datasets/few"]
    _build_with_few(server, *words, most=few + MOST_OF_FEW[scheme])


def test_an_image_that_a_table_names_is_one_request(server, scheme, names):
    table = "\n".join(["image,label", *(f"{name},{name[0]}" for name in names[:200])])
    buckets.write(f"{scheme}://tables/labels.csv", table.encode())
    server.requests.clear()
    words = [f"--input={scheme}://tables/labels.csv", f"--image_root={scheme}://photos", "--allow_outside_root"]
    buckets.build(*words, f"--output={scheme}://datasets/table", "--image_size=48")
    asked = Counter(request for request in server.requests if "photos" in request and ".jpg" in request)
    # One more asks whether the first image is there.
    assert (len(asked), set(asked.values())) == (201, {1})


def test_a_wrong_folder_of_images_is_refused_in_few_requests(server, scheme, names, convert):
    rows = "".join(f"{name},{name[0]}\n" for name in names)
    buckets.write(f"{scheme}://tables/wrong_root.csv", f"image,label\n{rows}".encode())
    words = [f"--input={scheme}://tables/wrong_root.csv", f"--output={scheme}://datasets/wrong_root"]
    server.requests.clear()
    convert(*words, f"--image_root={scheme}://photos/nowhere").refused("missing_images", "input", "image_root")
    asked = [request for request in server.requests if "nowhere" in request]
    assert len(asked) <= 11, asked


def _build_with_few(server: StorageServer, *words: str, most: float) -> None:
    server.requests.clear()
    began = time.monotonic()
    buckets.build(*words, "--image_size=48", "--quiet")
    # On a slow machine, lease and the counts of each process are written more often.
    most += 2 * (time.monotonic() - began)
    assert len(server.requests) <= most, Counter(map(kind_of, server.requests)).most_common()


def kind_of(request: str) -> str:
    """Method and kind of file of a request, to see where requests go."""
    words = request.partition("?")[0].split("/")
    return f"{words[0]} {'/'.join(words[-3:-1])}/*{Path(words[-1]).suffix}"


# What a build says

PHOTOS = sorted((Path(__file__).parents[1] / "data/photos").rglob("*.jpg"))


def test_requests_retries_and_bytes_are_counted(server, scheme, tmp_path):
    for number, path in enumerate(PHOTOS):
        buckets.write(f"{scheme}://tables/photos/{number % 3}/{number}.jpg", path.read_bytes())
    server.requests.clear()
    server.refuse("GET", "photos/1/1.jpg")
    output = f"{scheme}://datasets/counted"
    files = [f"--json_summary={tmp_path}/run.json", f"--metrics_file={tmp_path}/run.prom"]
    out = buckets.build(f"--input={scheme}://tables/photos", f"--output={output}", "--image_size=64", *files)
    asked = len(server.requests)
    counted = json.loads((tmp_path / "run.json").read_text())["object_store"]
    requests = {
        kind: count for kind, count in counted.items() if kind not in ("retries", "bytes_read", "bytes_written")
    }
    # The summary and the metrics are written when the last request is done.
    assert sum(requests.values()) == asked
    assert requests["read"] > len(PHOTOS)
    assert counted["retries"] == 1
    read = sum(path.stat().st_size for path in PHOTOS)
    assert read < counted["bytes_read"] < 2 * read
    shards = [buckets.read(f"{output}/{name}") for name in buckets.files_of(output) if ".tfrecord-" in name]
    assert sum(map(len, shards)) < counted["bytes_written"]
    (line,) = (line for line in out.splitlines() if line.startswith("object store: "))
    assert f"object store: {asked:,} requests (" in line
    assert line.endswith(", 1 retries")
    metrics = (tmp_path / "run.prom").read_text()
    of_output = f'output="{output}"'
    assert f'beam_tfrecords_object_store_requests{{kind="read",{of_output}}} {float(requests["read"])}' in metrics
    assert f"beam_tfrecords_object_store_retries{{{of_output}}} 1.0" in metrics


def test_of_a_zip_archive_its_directory_and_its_images_are_read(scheme, tmp_path):
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("video.mp4", bytes(64 << 20))
        for number, path in enumerate(PHOTOS):
            archive.write(path, f"{number % 3}/{number}.jpg")
        archive.writestr("more.mp4", bytes(64 << 20))
    buckets.write(f"{scheme}://tables/in.zip", (tmp_path / "in.zip").read_bytes())
    words = [f"--input={scheme}://tables/in.zip", f"--output={tmp_path}/out", "--image_size=64"]
    buckets.build(*words, f"--json_summary={tmp_path}/run.json")
    counted = json.loads((tmp_path / "run.json").read_text())["object_store"]
    assert counted["bytes_read"] < sum(path.stat().st_size for path in PHOTOS) + (1 << 20)
    # One request for each image; none to list it.
    assert counted["read"] < len(PHOTOS) + 20


def test_a_build_on_disk_says_nothing_of_stores(tmp_path):
    files = [f"--json_summary={tmp_path}/run.json", f"--metrics_file={tmp_path}/run.prom"]
    words = [f"--input={PHOTOS[0].parents[1]}", f"--output={tmp_path}/out", "--image_size=32", *files]
    assert "object store" not in buckets.build(*words)
    assert json.loads((tmp_path / "run.json").read_text())["object_store"] == {}
    assert "object_store" not in (tmp_path / "run.prom").read_text()
