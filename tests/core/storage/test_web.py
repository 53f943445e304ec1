"""Reading from the web, from a real server on this machine: what is retried, refused, cut off and reported."""

from __future__ import annotations

import math
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.storage import web
from tests.web_server import WebServer, web_server

FILE = bytes(range(256)) * 4
PRIVATE = storage.StorageOptions(allow_private_addresses=True)
FILES = {"a.jpg": FILE, "ä b.jpg": FILE, "big.jpg": bytes(3_000_000)}


@pytest.fixture
def server(monkeypatch) -> Iterator[WebServer]:
    monkeypatch.setattr(web, "_answered", -math.inf)
    monkeypatch.setattr(web, "_PAUSES", (0.05, 0.1))
    monkeypatch.setattr(web, "_READ_SECONDS", 1.5)
    monkeypatch.setattr(web, "_CONNECT_SECONDS", 0.5)
    web._pools.cache_clear()
    with web_server(FILES) as running, storage.using(PRIVATE):
        yield running
    web._pools.cache_clear()


def read(url: str, length: int = 1 << 20) -> bytes:
    return storage.read_range(url, 0, length)


@pytest.mark.parametrize("way", ["plain", "moved", "gzip", "chunked", "cut_once", "busy_once"])
def test_the_bytes_of_a_file_come_whole(server, way):
    began = time.monotonic()
    assert read(f"{server.url}/{way}/a.jpg") == FILE
    if way == "busy_once":
        assert time.monotonic() - began >= 1.0


def test_a_url_may_have_a_query_and_letters_that_urls_write_otherwise(server):
    assert read(f"{server.url}/plain/a.jpg?width=100&x=%20#part") == FILE
    assert server.seen == {"/plain/a.jpg?width=100&x=%20": 1}
    assert server.headers["User-Agent"] == "beam-tfrecords"


def test_no_more_is_read_than_asked_for(server):
    assert read(f"{server.url}/plain/big.jpg", 1000) == bytes(1000)
    assert read(f"{server.url}/bomb/x", 1000) == bytes(1000)


@pytest.mark.parametrize(
    ("path", "message", "requests"),
    [
        ("plain/none.jpg", "404 Not Found", 1),
        ("broken/x", "500 Internal Server Error", 3),
        ("busy/0", "503 Service Unavailable", 3),
        ("busy/1000", "503 Service Unavailable", 1),
        ("circle/x", "more than 5 redirects", 6),
        ("elsewhere/x", "redirected to ftp://", 1),
        ("bad_target/x", r"redirected to http://\[x/", 1),
        ("cut/a.jpg", "the answer ends after 50 bytes", 3),
        ("stall/a.jpg", "the answer ends after 50 bytes", 3),
    ],
)
def test_what_a_host_answers_is_the_failure_of_the_file(server, path, message, requests):
    with pytest.raises(storage.StorageError, match=message) as error:
        read(f"{server.url}/{path}")
    assert not storage.is_service_fault(error.value)
    assert server.seen.total() == requests


@pytest.mark.nightly
def test_failures_use_up_no_connections(server):
    for path in ("plain/none.jpg", "circle/x", "broken/x"):
        for number in range(web._CONNECTIONS + 1):
            with pytest.raises(storage.StorageError):
                read(f"{server.url}/{path}?{number}")
    for _ in range(web._CONNECTIONS + 1):
        assert read(f"{server.url}/plain/big.jpg", 10) == bytes(10)


def test_bytes_that_come_too_slowly_are_not_waited_for(server, monkeypatch):
    monkeypatch.setattr(web, "_MOST_SECONDS", 1.0)
    began = time.monotonic()
    with pytest.raises(storage.StorageError, match="not complete after 1 seconds"):
        read(f"{server.url}/drip/x")
    assert time.monotonic() - began < 300


@pytest.mark.nightly
def test_a_host_has_a_bounded_number_of_connections(server):
    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(read, [f"{server.url}/slow/a.jpg"] * 64))
    assert answers == [FILE] * 64
    assert server.most_at_once == web._CONNECTIONS


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"])
def test_private_addresses_are_refused_unless_the_request_allows_them(server, host):
    storage.set_options(storage.StorageOptions())
    url = f"http://{host}:{server.server_port}/plain/a.jpg"
    with pytest.raises(storage.StorageError, match=r"private address .*`allow_private_addresses`") as error:
        read(url)
    assert not storage.is_service_fault(error.value)
    assert not server.seen
    with storage.using(PRIVATE):
        assert read(url) == FILE
    with pytest.raises(storage.StorageError, match="private address"):
        read(f"{server.url}/plain/b.jpg")


def test_redirects_to_private_addresses_are_refused(server, monkeypatch):
    storage.set_options(storage.StorageOptions())
    # Of two addresses of this machine, one stands for a host of the internet.
    monkeypatch.setattr(web, "_is_public", "127.0.0.1".__eq__)
    assert read(f"{server.url}/moved/a.jpg") == FILE
    with web_server(FILES, host="127.0.0.2") as private:
        with pytest.raises(storage.StorageError, match=r"private address 127\.0\.0\.2"):
            read(f"{server.url}/to/127.0.0.2:{private.server_port}/plain/a.jpg")
        assert not private.seen


def test_a_name_is_looked_up_once_and_private_addresses_of_it_get_no_connection(server, monkeypatch):
    storage.set_options(storage.StorageOptions())
    answers = [["127.0.0.2", "127.0.0.1"], ["127.0.0.2"]]
    monkeypatch.setattr(web, "_is_public", "127.0.0.1".__eq__)
    asked, look_up = [], socket.getaddrinfo

    def answer(host, port, *others, **named):
        if host != "turns.example":
            return look_up(host, port, *others, **named)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers[len(asked) - 1]]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert read(f"http://turns.example:{server.server_port}/plain/a.jpg") == FILE
    assert server.headers["Host"] == f"turns.example:{server.server_port}"
    assert len(asked) == 1
    web._pools.cache_clear()
    with pytest.raises(storage.StorageError, match=r"private address 127\.0\.0\.2"):
        read(f"http://turns.example:{server.server_port}/plain/a.jpg")


@pytest.mark.parametrize(
    "url", ["http://me:secret@{}/plain/none.jpg?token=secret#secret", "http://me:secret@[x/?a=secret"]
)
def test_user_info_and_queries_are_in_no_message(server, url):
    with pytest.raises(storage.StorageError) as error:
        read(url.format(f"127.0.0.1:{server.server_port}"))
    assert "secret" not in str(error.value)
    assert "http://" in str(error.value)


def test_urls_that_differ_in_the_query_are_shown_as_different():
    urls = [
        "https://x.org/1.jpg",
        "https://x.org/1.jpg?id=1",
        "https://u:p@x.org/1.jpg?id=2",
        "https://x.org/1.jpg?id=12",
    ]
    names = [storage.shown(url) for url in urls]
    assert len(set(names)) == 4
    assert names[0] == urls[0]
    assert all(name.startswith("https://x.org/1.jpg#") for name in names[1:])
    assert storage.shown("s3://b/x?y@z#w") == "s3://b/x?y@z#w"


PUBLIC = "8.8.8.8 2606:4700::1111 ::ffff:8.8.8.8 ::8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1"
PRIVATE_ADDRESSES = """
127.0.0.1 10.1.2.3 172.20.0.1 192.168.1.1 100.64.0.1 169.254.169.254 0.0.0.0 ::1 fe80::1%eth0 fd00::1 ::ffff:10.0.0.1
::10.0.0.1 :: 64:ff9b::169.254.169.254 64:ff9b:1::808:808 2002:7f00:1::1 2001:0:7f00:1:: 224.0.0.1 233.252.0.1 239.1.1.1
240.0.0.1 255.255.255.255 ff0e::1 100::1 2001:db8::1
"""


def test_which_addresses_are_public():
    assert [one for one in PUBLIC.split() if not web._is_public(one)] == []
    assert [one for one in PRIVATE_ADDRESSES.split() if web._is_public(one)] == []


def test_a_host_that_refuses_connections_is_the_failure_of_the_file(server):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(storage.StorageError, match="Connection refused") as error:
        read(f"{url}/a.jpg")
    assert not storage.is_service_fault(error.value)


@pytest.mark.parametrize(("way", "most"), [("silent", 2), ("broken", 3)])
def test_all_attempts_at_an_image_have_one_deadline(server, monkeypatch, way, most):
    monkeypatch.setattr(web, "_MOST_SECONDS", 1.0)
    monkeypatch.setattr(web, "_READ_SECONDS", 0.7)
    with pytest.raises(storage.StorageError):
        read(f"{server.url}/{way}/x")
    assert 1 <= server.seen.total() <= most


@pytest.fixture
def silent_host() -> Iterator[str]:
    """A URL of a host that answers to nothing: its queue of connections is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        waiting = [socket.socket() for _ in range(8)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/a.jpg"
        for one in waiting:
            one.close()


@pytest.mark.nightly
def test_a_silent_host_is_a_service_fault_only_if_no_other_answers(server, silent_host, monkeypatch):
    monkeypatch.setattr(web, "_ANSWER_SECONDS", 0.0)
    with pytest.raises(storage.ServiceFaultError, match="within 0 seconds; other hosts do not answer either"):
        read(silent_host)
    with ThreadPoolExecutor(2) as threads:
        silent = threads.submit(read, silent_host)
        while not silent.done():
            read(f"{server.url}/plain/a.jpg")
            time.sleep(0.05)
    assert isinstance(silent.exception(), storage.StorageError)
    assert not isinstance(silent.exception(), storage.ServiceFaultError)


@pytest.mark.parametrize(
    ("number", "is_fault"), [(socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)], ids=["no such host", "no answer"]
)
def test_a_name_that_does_not_exist_is_no_service_fault(server, monkeypatch, number, is_fault):
    # No server of names is at hand that could be told to answer so.
    def look_up(*_: object) -> None:
        raise socket.gaierror(number, "as the resolver says")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(storage.StorageError) as error:
        read("http://nowhere.example/a.jpg")
    assert storage.is_service_fault(error.value) is is_fault


def test_no_network_at_all_is_a_service_fault():
    code = (
        "from beam_tfrecords import storage; from beam_tfrecords.storage import web; web._PAUSES = (0.01,)\n"
        "for url in ('http://8.8.8.8/a.jpg', 'https://example.org/a.jpg'):\n"
        "    try: storage.read_range(url, 0, 9)\n"
        "    except storage.ServiceFaultError as error: print(error)\n"
    )
    if not shutil.which("unshare") or subprocess.run(["unshare", "-n", "true"], check=False).returncode:
        pytest.skip("a network of its own needs root")
    command = ["unshare", "-n", sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert ran.stdout.count("other hosts do not answer either") == 2, ran.stderr


@pytest.mark.parametrize("url", ["http:///a.jpg", "http://[x/a.jpg", "https://", "http://a:b:c/"])
def test_what_is_no_url_is_the_failure_of_the_file(url):
    with pytest.raises(storage.StorageError, match="is no URL"):
        read(url)


def test_nothing_else_of_the_web_is_read_or_written():
    for use in (storage.stat, storage.exists, storage.read_bytes, storage.open_read):
        with pytest.raises(storage.SchemeError, match="only where a table names images; download it first"):
            use("https://host/a.tar")
