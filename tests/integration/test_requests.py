"""How many requests a build sends to a store."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from beam_tfrecords import storage
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
        list(pool.map(storage.write_bytes, [f"{scheme}://photos/{name}" for name in names], images))
        yield running[scheme]


def test_a_build_sends_few_more_requests_than_there_are_images(server, scheme):
    _build_with_few(server, f"--input={scheme}://photos", f"--output={scheme}://datasets/out", most=MOST * COUNT)


def test_a_small_build_sends_few_requests_for_all_but_images(server, scheme):
    few = 200
    with ThreadPoolExecutor(16) as pool:
        places = [(f"{scheme}://photos/{number % CLASSES}/{number:04}.jpg", number) for number in range(few)]
        copies = [(f"{scheme}://tables/few/{number % CLASSES}/{number}.jpg", path) for path, number in places]
        list(pool.map(lambda copy: storage.write_bytes(copy[0], storage.read_bytes(copy[1])), copies))
    words = [f"--input={scheme}://tables/few", f"--output={scheme}://datasets/few"]
    _build_with_few(server, *words, most=few + MOST_OF_FEW[scheme])


def test_an_image_that_a_table_names_is_one_request(server, scheme, names):
    table = "\n".join(["image,label", *(f"{name},{name[0]}" for name in names[:200])])
    storage.write_bytes(f"{scheme}://tables/labels.csv", table.encode())
    server.requests.clear()
    words = [f"--input={scheme}://tables/labels.csv", f"--image_root={scheme}://photos", "--allow_outside_root"]
    buckets.build(*words, f"--output={scheme}://datasets/table", "--image_size=48")
    asked = Counter(request for request in server.requests if "photos" in request and ".jpg" in request)
    # One more asks whether the first image is there.
    assert (len(asked), set(asked.values())) == (201, {1})


def test_a_wrong_folder_of_images_is_refused_in_few_requests(server, scheme, names, convert):
    rows = "".join(f"{name},{name[0]}\n" for name in names)
    storage.write_bytes(f"{scheme}://tables/wrong_root.csv", f"image,label\n{rows}".encode())
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
