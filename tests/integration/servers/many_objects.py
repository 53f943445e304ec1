"""A store with very many objects, or very large ones, for what shows at scale alone: listing, reading and deleting.

It speaks as much of GCS (JSON) and of S3 (XML) as these need, and answers each request after a while. The objects are
in memory by name alone, and have the bytes of one photo with zeros behind it. It runs in a process of its own, as it
would otherwise take the time of what is tested:

    python -m tests.integration.servers.many_objects PORT COUNT LAYOUT SECONDS SIZE PAYS
"""

from __future__ import annotations

import bisect
import contextlib
import http.server
import json
import re
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape, unescape

from tests.integration.servers import processes

LAYOUTS = {
    "flat": "{0:08d}.jpg",
    "folders": "class_{1:04d}/{0:08d}.jpg",
    # In few folders, with a long beginning that all names share.
    "deep": "data/2012/train/ILSVRC2012_{2}/ILSVRC2012_train_{0:08d}.JPEG",
}
_PHOTO = processes.PROJECT / "tests/data/photos/cat/cat_01.jpg"
_ETAG = "d41d8cd98f00b204e9800998ecf8427e"
_TIME = "2026-01-02T03:04:05.678Z"


def names_of(layout: str, count: int) -> list[str]:
    """The names of the objects, sorted."""
    return sorted(LAYOUTS[layout].format(number, number % 1000, number % 3) for number in range(count))


def _object_of(path: str) -> str:
    """The name of the object that a request is about: behind `/o/`, or behind the bucket."""
    return urllib.parse.unquote(path.partition("/o/")[2] or path[1:].partition("/")[2])


class _Store(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, names: list[str], seconds: float, size: int, pays: bool) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.names, self.seconds, self.size, self.pays = names, seconds, size, pays
        self.content = _PHOTO.read_bytes().ljust(size, b"\0")
        self.requests = 0
        self.lock = threading.Lock()

    def delete(self, gone: set[str]) -> None:
        with self.lock:
            self.names = [name for name in self.names if name not in gone]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Store

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        if url.path == "/stats":
            self._answer(
                "application/json", json.dumps({"requests": self.server.requests, "left": len(self.server.names)})
            )
            return
        with self.server.lock:
            self.server.requests += 1
        time.sleep(self.server.seconds)
        if self.server.pays and not (query.get("userProject") or self.headers.get("x-amz-request-payer")):
            message = "Bucket is a requester pays bucket but no user project provided."
            json_error = json.dumps({"error": {"code": 400, "message": message}})
            xml_error = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            is_json = url.path.startswith(("/storage/", "/download/"))
            self._answer("application/json", json_error, 400) if is_json else self._answer("text/xml", xml_error, 403)
        elif self.command == "POST" and "/batch" in url.path:
            self._delete_batch(body)
        elif self.command == "POST":
            self.server.delete({unescape(name.decode()) for name in re.findall(rb"<Key>(.*?)</Key>", body)})
            self._answer("application/xml", "<DeleteResult/>")
        elif url.path.endswith("/o"):
            self._list_json(query)
        elif "list-type" in query:
            self._list_xml(query)
        elif not self._has(url.path):
            is_json = url.path.startswith(("/storage/", "/download/"))
            kind, message = (
                ("application/json", "{}") if is_json else ("text/xml", "<Error><Code>NoSuchKey</Code></Error>")
            )
            self._answer(kind, message, 404)
        elif url.path.startswith("/storage/"):
            self._answer("application/json", self._item(_object_of(url.path)))
        else:
            self._answer("image/jpeg", self.server.content)

    do_GET = do_HEAD = do_POST = _handle

    def _has(self, path: str) -> bool:
        name = _object_of(path)
        place = bisect.bisect_left(self.server.names, name)
        return self.server.names[place : place + 1] == [name]

    def _page(self, query: dict[str, str], start: str, most: int) -> tuple[list[str], list[str], str]:
        """Names, folders, and the name after which the next page begins, or ""."""
        names, prefix, delimiter = self.server.names, query.get("prefix", ""), query.get("delimiter")
        position, found, folders = bisect.bisect_left(names, max(start, prefix)), [], []
        while position < len(names) and names[position].startswith(prefix) and len(found) + len(folders) < most:
            name = names[position]
            folder, slash, _ = name[len(prefix) :].partition("/")
            if delimiter and slash:
                folders.append(f"{prefix}{folder}/")
                position = bisect.bisect_left(names, f"{prefix}{folder}0")
            else:
                found.append(name)
                position += 1
        is_last = position >= len(names) or not names[position].startswith(prefix)
        return found, folders, "" if is_last else names[position]

    def _list_json(self, query: dict[str, str]) -> None:
        start = query.get("pageToken") or query.get("startOffset", "")
        found, folders, left = self._page(query, start, int(query.get("maxResults", 1000)))
        end = query.get("endOffset")
        inside = [name for name in found if name < end] if end else found
        items = ",".join(map(self._item, inside))
        more = f',"nextPageToken":{json.dumps(left)}' if left and len(inside) == len(found) else ""
        self._answer("application/json", f'{{"items":[{items}],"prefixes":{json.dumps(folders)}{more}}}')

    def _item(self, name: str) -> str:
        size = self.server.size
        return f'{{"name":{json.dumps(name)},"size":"{size}","updated":"{_TIME}","generation":"1700000000000000"}}'

    def _list_xml(self, query: dict[str, str]) -> None:
        # Nothing is between a name and itself with the least character behind it.
        start = query.get("continuation-token") or (
            query.get("start-after", "") + "\0" if "start-after" in query else ""
        )
        found, folders, left = self._page(query, start, int(query.get("max-keys", 1000)))
        items = "".join(
            f"<Contents><Key>{escape(urllib.parse.quote(name))}</Key><LastModified>{_TIME}</LastModified>"
            f"<ETag>&quot;{_ETAG}&quot;</ETag>"
            f"<Size>{self.server.size}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
            for name in found
        )
        prefixes = "".join(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders)
        more = f"<NextContinuationToken>{escape(left)}</NextContinuationToken>" if left else ""
        self._answer(
            "application/xml",
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{'true' if left else 'false'}</IsTruncated><EncodingType>url</EncodingType>{more}{items}"
            f"{prefixes}</ListBucketResult>",
        )

    def _delete_batch(self, body: bytes) -> None:
        paths = re.findall(rb"^DELETE \S*/o/(\S+)", body, re.MULTILINE)
        self.server.delete({urllib.parse.unquote(path.decode()).partition("?")[0] for path in paths})
        part = "--x\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\r\n"
        self._answer("multipart/mixed; boundary=x", part * len(paths) + "--x--")

    def _answer(self, kind: str, content: str | bytes, status: int = 200) -> None:
        content = content.encode() if isinstance(content, str) else content
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("ETag", f'"{_ETAG}"')
        self.send_header("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *words: object) -> None:
        pass


@contextlib.contextmanager
def many_objects(
    folder: Path, *, count: int, layout: str = "flat", seconds: float = 0.02, size: int = 100_000, pays: bool = False
) -> Iterator[str]:
    """Runs the store until the block ends; yields its endpoint, for GCS and for S3. Every bucket has the objects.

    Args:
      folder: for its log.
      count: number of objects.
      layout: of their names, one of `LAYOUTS`.
      seconds: before each answer.
      size: of each object.
      pays: whether the requester has to pay.
    """
    port = processes.free_port()
    words = map(str, (port, count, layout, seconds, size, int(pays)))
    command: list[str | Path] = [sys.executable, "-m", __name__, *words]
    with processes.running(command, port=port, log=folder / "many_objects.log"):
        yield f"http://127.0.0.1:{port}"


def stats_of(endpoint: str) -> dict[str, int]:
    """`requests` so far, and objects `left`."""
    with urllib.request.urlopen(f"{endpoint}/stats") as answer:
        stats: dict[str, int] = json.load(answer)
        return stats


if __name__ == "__main__":
    _port, _count, _layout, _seconds, _size, _pays = sys.argv[1:]
    _names = names_of(_layout, int(_count))
    _Store(int(_port), _names, float(_seconds), int(_size), bool(int(_pays))).serve_forever()
