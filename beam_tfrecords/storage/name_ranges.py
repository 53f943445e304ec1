"""Lists the objects of a store in the order of their names, and partitions very many of them by prefixes.

Stores list a thousand names per page, in the order of their UTF-8 bytes; a page takes 0.02 to 0.2 s. A process lists
the pages one after the other; for a billion objects, workers list the partitions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from beam_tfrecords.storage import paths
from beam_tfrecords.storage.entries import FileEntry, Partition

# Maximum page size of the stores.
_PAGE = 1000
# Approximate number of partitions of one listing, and at most four times as many.
_PARTS = 256
# Prefixes that are examined concurrently.
_THREADS = 16


class Page(NamedTuple):
    """Objects with consecutive names.

    Attributes:
      entries: the objects.
      last: the last name; "" if the range has no more names.
    """

    entries: Sequence[FileEntry]
    last: str


class Names:
    """The names of the objects below a folder, or of the objects that match a glob; see `storage.list_files`.

    Args:
      root: URI of the bucket, with a slash at the end.
      name: name of the folder or glob.
      literal: treats `name` as a folder, never as a glob.
      list_page: lists the first page of names after the first argument ("": all) and up to and including the second
        (None: all), with two more arguments, the `prefix` of the names and the page `size`.
    """

    def __init__(self, root: str, name: str, *, literal: bool, list_page: Callable[..., Page]) -> None:
        is_glob = paths.is_glob(name) and not literal
        self._root = root
        self._prefix = paths.literal_prefix(name) if is_glob else paths.folder_prefix(name)
        self._matches = paths.compile_glob(name).fullmatch if is_glob else None
        self._list_page = list_page

    def list_files(self, *, limit: int | None = None, part: Partition = ("", "")) -> Iterator[FileEntry]:
        """Yields the objects with these names, in the order of the names.

        Args:
          limit: yields at most this many.
          part: partition from `partition`: names after the first bound up to and including the second; "": unbounded.
        """
        return itertools.islice(self._list_all(limit, str(part[0]), str(part[1]) or None), limit)

    def _list_all(self, limit: int | None, after: str, before: str | None) -> Iterator[FileEntry]:
        size = _PAGE if self._matches or limit is None else max(1, min(limit, _PAGE))
        while True:
            page = self._list_page(after, before, prefix=self._prefix, size=size)
            for entry in page.entries:
                if self._matches is None or self._matches(entry.path[len(self._root) :]):
                    yield entry
            if not page.last:
                return
            after = page.last

    def partition(self) -> list[Partition]:
        """Partitions the names into ranges of about equal object counts, as far as a few requests can tell.

        Cuts at prefixes of increasing length, as long as more than a page of names share a prefix.
        """
        level, cuts = [self._prefix], {self._prefix}
        with ThreadPoolExecutor(_THREADS) as pool:
            while level and len(cuts) < _PARTS:
                longer = list[str]()
                for beginning, found in zip(level, pool.map(self._lengthen, level), strict=True):
                    if found and len(cuts) + len(found) <= 4 * _PARTS:
                        cuts.remove(beginning)
                        cuts.update(found)
                        longer += found
                level = longer
        return list(itertools.pairwise(["", *sorted(cuts)[1:], ""]))

    def _lengthen(self, beginning: str) -> list[str]:
        """Extends a prefix until it branches; returns the longer prefixes that more than a page of names share."""
        # Otherwise a prefix that branches early would use up all partitions.
        while len(found := self._branches(beginning)) == 1:
            beginning = found[0]
        return found

    def _branches(self, beginning: str) -> list[str]:
        """Returns prefixes one character longer that more than a page of names share; skips common characters."""
        page = self._page(beginning, beginning)
        if not page.last:
            return []
        pairs = zip(page.entries[0].path[len(self._root) :], page.last, strict=False)
        shared = "".join(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        behind = _behind(shared) if len(shared) > len(beginning) else None
        if behind and not self._page(behind, beginning, size=1).entries:
            beginning = shared
        found = list[str]()
        after: str | None = beginning
        while after is not None and (entries := self._page(after, beginning, size=1).entries):
            longer = entries[0].path[len(self._root) :][: len(beginning) + 1]
            if self._page(longer, longer).last:
                found.append(longer)
            after = _behind(longer)
        return found

    def _page(self, after: str, prefix: str, *, size: int | None = None) -> Page:
        return self._list_page(after, None, prefix=prefix, size=size or _PAGE)


def _behind(beginning: str) -> str | None:
    """Returns the first name after all names with a prefix; None if the prefix's last letter has no safe successor."""
    return beginning[:-1] + chr(ord(beginning[-1]) + 1) if beginning[-1] < "\ud7ff" else None
