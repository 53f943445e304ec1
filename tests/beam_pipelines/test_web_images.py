"""Tables of URLs: the same dataset as from files, and a reason for each image that a host does not give."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.web_server import web_server

PHOTOS = sorted((Path(__file__).parents[1] / "data/photos").glob("*/*.jpg"))
FILES = {f"{number}.jpg": photo.read_bytes() for number, photo in enumerate(PHOTOS[:20])}


@pytest.fixture(scope="module")
def server():
    with web_server(FILES) as running:
        yield running


def save_table(path: Path, names: list[str], column: str = "url") -> Path:
    with path.open("w", newline="") as file:
        rows = ((f"{number:03d}", name, "ab"[number % 2]) for number, name in enumerate(names))
        csv.writer(file).writerows([("id", column, "label"), *rows])
    return path


def flags_of(table: Path) -> list[str]:
    return [f"--input={table}", "--key_column=id", "--image_size=32", "--name=web"]


def test_images_of_the_web_give_the_records_of_files(server, tmp_path, build):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    files = build(tmp_path / "files", *flags_of(save_table(tmp_path / "files.csv", list(FILES))))
    urls = [f"{server.url}/{'moved' if number % 2 else 'plain'}/{name}" for number, name in enumerate(FILES)]
    table = save_table(tmp_path / "urls.csv", urls)
    out = build(tmp_path / "urls", *flags_of(table), "--allow_private_addresses")
    assert shards_of(out) == shards_of(files)
    relative = save_table(tmp_path / "relative.csv", list(FILES), "image")
    below = [f"--image_root={server.url}/plain", "--allow_private_addresses"]
    assert shards_of(build(tmp_path / "relative", *flags_of(relative), *below)) == shards_of(files)


def test_what_a_host_does_not_give_is_rejected_with_its_reason(server, tmp_path, build):
    bad = ["plain/none.jpg", "page/x.jpg", "cut/1.jpg", "elsewhere/1.jpg", "gzip/2.jpg"]
    urls = [f"{server.url}/{path}" for path in [*(f"plain/{name}" for name in FILES), *bad]]
    flags = [*flags_of(save_table(tmp_path / "urls.csv", urls)), "--allow_private_addresses", "--max_failures=0.5"]
    out = build(tmp_path / "out", *flags)
    failures = [json.loads(line) for line in (out / "failures.jsonl").read_text().splitlines()]
    found = {failure["uri"].removeprefix(f"{server.url}/"): failure["reason"] for failure in failures}
    assert found == {
        "plain/none.jpg": "unreadable",
        "page/x.jpg": "not_an_image",
        "cut/1.jpg": "unreadable",
        "elsewhere/1.jpg": "unreadable",
    }
    assert manifest_of(out)["records"] == 21


def test_private_addresses_are_refused_by_default(server, tmp_path, build):
    (tmp_path / "1.jpg").write_bytes(FILES["1.jpg"])
    names = ["1.jpg", f"{server.url}/plain/1.jpg"]
    before = server.seen.total()
    out = build(tmp_path / "out", *flags_of(save_table(tmp_path / "t.csv", names, "image")), "--max_failures=0.5")
    (failure,) = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    assert failure["reason"] == "unreadable"
    assert "private address 127.0.0.1" in failure["detail"]
    assert server.seen.total() == before


def test_the_next_version_fetches_all_and_converts_what_is_new(server, tmp_path, build):
    table = save_table(tmp_path / "urls.csv", [f"{server.url}/plain/{name}" for name in FILES])
    flags = [*flags_of(table), "--allow_private_addresses"]
    first = build(tmp_path / "first", *flags)
    before = server.seen.total()
    second = build(tmp_path / "second", *flags, f"--reuse={first}")
    assert server.seen.total() - before == len(FILES)
    assert manifest_of(second)["reuse"]["copied"] == len(FILES)
    assert shards_of(second) == shards_of(first)


@pytest.mark.parametrize(("limit", "count"), [(256 << 10, 0), ((256 << 10) - 1, 3), (1000, 3)])
def test_an_image_is_read_up_to_the_limit(server, tmp_path, convert, limit, count):
    server.files = {**FILES, "large.jpg": FILES["1.jpg"].ljust(256 << 10, b"\0")}
    urls = [f"{server.url}/{way}/large.jpg" for way in ("plain", "chunked", "gzip")]
    flags = [*flags_of(save_table(tmp_path / "urls.csv", urls)), "--allow_private_addresses", "--layout=image"]
    ran = convert(*flags, f"--output={tmp_path / 'out'}", f"--max_file_size={limit}B")
    lines = (tmp_path / "out/failures.jsonl").read_text().splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["too_large_file"] * count, ran.err


def test_passwords_and_queries_of_urls_are_in_nothing_that_a_build_leaves_or_prints(server, tmp_path, convert):
    names = [*list(FILES)[:6], "none.jpg"]
    urls = [f"{server.url}/plain/{name}?token=secret{name}".replace("://", "://me:secret@") for name in names]
    table = save_table(tmp_path / "table.csv", urls)
    flags = ["--image_size=32", "--max_failures=0.5", "--allow_private_addresses"]
    ran = convert(f"--input={table}", f"--output={tmp_path / 'out'}", *flags)
    assert ran.code == 0, ran.err
    assert manifest_of(tmp_path / "out")["records"] == 6
    assert "secret" not in ran.out + ran.err
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or b"secret" not in path.read_bytes(), path
    (failure,) = (tmp_path / "out/failures.jsonl").read_text().splitlines()
    assert json.loads(failure)["key"].startswith(f"{server.url}/plain/none.jpg#")
    assert "secret" not in str([pq.read_table(path).to_pylist() for path in (tmp_path / "out/index").iterdir()])
    again = convert(f"--input={table}", f"--output={tmp_path / 'again'}", *flags, "--image_root=http://a:b@x.org")
    assert again.code == 2
    assert "a URL with a name, password or query" in again.err
