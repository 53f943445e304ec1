"""Lists very many objects in parallel: each thread lists a range of names, and an idle thread takes half of another's.

Stores list a thousand names per page, in the order of their UTF-8 bytes; a page takes 0.02 to 0.2 s. Sequential pages
would take two days for a billion objects.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import NamedTuple, TypeAlias

from beam_tfrecords.storage import paths
from beam_tfrecords.storage.entries import FileEntry, Partition

# Maximum page size of the stores.
_PAGE = 1000
# Pages listed sequentially before the ranges are split; and ranges listed concurrently.
_FIRST_PAGES = 10
_THREADS = 16
# Approximate number of partitions of one listing, and at most four times as many.
_PARTS = 256
# Characters after the common prefix of two names that determine their middle.
_DIGITS = 8
# Characters at the end of a page's common prefix that are treated as a number.
_COUNTING = 3


class Page(NamedTuple):
    """Objects with consecutive names.

    Attributes:
      entries: the objects.
      first: the first name.
      last: the last name; "" if the range has no more names.
    """

    entries: Sequence[FileEntry]
    first: str
    last: str


# Lists names after the first argument and up to and including the second one, one page per call. "" and None are before
# and after all names.
ListPage: TypeAlias = Callable[[str, "str | None"], Page]


class Names:
    """The names of the objects below a folder, or of those that match a glob; see `storage.list_files`.

    Attributes:
      root: URI of the bucket, with a slash at the end.
      prefix: common prefix of all names.
      matches: filters names; None if all names with the prefix match.

    Args:
      root: URI of the bucket, with a slash at the end.
      name: name of the folder or glob.
      literal: treats `name` as a folder, never as a glob.
      list_page: a `ListPage` with two more arguments, the `prefix` of the names and the page `size`.
    """

    def __init__(self, root: str, name: str, *, literal: bool, list_page: Callable[..., Page]) -> None:
        is_glob = paths.is_glob(name) and not literal
        self.root = root
        self.prefix = paths.literal_prefix(name) if is_glob else paths.folder_prefix(name)
        self.matches = paths.compile_glob(name).fullmatch if is_glob else None
        self._list_page = list_page

    def list_page(self, after: str, before: str | None = None, *, prefix: str | None = None, size: int = 0) -> Page:
        """Lists a page, as a `ListPage`."""
        return self._list_page(after, before, prefix=prefix or self.prefix, size=size or _PAGE)


def list_below(names: Names, *, limit: int | None = None, part: Partition = ("", "")) -> Iterator[FileEntry]:
    """Yields the objects with these names.

    Args:
      names: the names.
      limit: yields at most this many.
      part: partition from `partition_below`: names after the first bound up to and including the second; "": unbounded.
    """
    size = _PAGE if names.matches or limit is None else max(1, min(limit, _PAGE))
    list_page = functools.partial(names.list_page, size=size)
    list_pages = list_at_once if limit is None else list_in_order
    with contextlib.closing(list_pages(list_page, str(part[0]), str(part[1]) or None)) as pages:
        entries = itertools.chain.from_iterable(page.entries for page in pages)
        start, matches = len(names.root), names.matches
        found = entries if matches is None else (entry for entry in entries if matches(entry.path[start:]))
        yield from itertools.islice(found, limit)


def partition_below(names: Names) -> list[Partition]:
    """Partitions names into ranges of about equal object counts, as far as a few requests can tell.

    Cuts at prefixes of increasing length, as long as more than a page of names share a prefix.
    """
    level, cuts = [names.prefix], {names.prefix}
    pool = ThreadPoolExecutor(_THREADS)
    try:
        while level and len(cuts) < _PARTS:
            longer = list[str]()
            for beginning, found in zip(level, pool.map(functools.partial(_lengthen, names), level), strict=True):
                if len(cuts) + len(found) > 4 * _PARTS:
                    break
                if found:
                    cuts.remove(beginning)
                    cuts.update(found)
                    longer += found
            level = longer
    finally:
        pool.shutdown(cancel_futures=True)
    return list(itertools.pairwise(["", *sorted(cuts)[1:], ""]))


def _lengthen(names: Names, beginning: str) -> list[str]:
    """Extends a prefix until it branches; returns the longer prefixes that more than a page of names share."""
    # Otherwise a prefix that branches early would use up all partitions.
    while len(found := _branches(names, beginning)) == 1:
        beginning = found[0]
    return found


def _branches(names: Names, beginning: str) -> list[str]:
    """Returns prefixes one character longer that more than a page of names share; skips common characters."""
    page = names.list_page(beginning, prefix=beginning)
    if not page.last:
        return []
    shared = page.first[: _shared(page.first, page.last)]
    if len(shared) > len(beginning) and not names.list_page(_behind(shared), prefix=beginning, size=1).entries:
        beginning = shared
    found = list[str]()
    after: str | None = beginning
    while after is not None and (entries := names.list_page(after, prefix=beginning, size=1).entries):
        longer = entries[0].path[len(names.root) :][: len(beginning) + 1]
        if names.list_page(longer, prefix=longer).last:
            found.append(longer)
        after = _behind(longer) or None
    return found


def _behind(beginning: str) -> str:
    """Returns the first name after all names with a prefix; "" if the prefix's last letter has no safe successor."""
    return beginning[:-1] + chr(ord(beginning[-1]) + 1) if beginning and beginning[-1] < "\ud7ff" else ""


def list_in_order(list_page: ListPage, after: str = "", before: str | None = None) -> Generator[Page, None, None]:
    """Yields all pages of a range, one after the other."""
    page = list_page(after, before)
    yield page
    while page.last:
        page = list_page(page.last, before)
        yield page


def list_at_once(list_page: ListPage, after: str = "", before: str | None = None) -> Generator[Page, None, None]:
    """Yields all pages of a range; lists many pages concurrently after the first ones, in no particular order.

    Args:
      list_page: lists a page; called in threads.
      after: lists names after this one.
      before: the last name of the range, or None for the end of all names.
    """
    page = Page((), "", "")
    for page in itertools.islice(list_in_order(list_page, after, before), _FIRST_PAGES):
        yield page
    if not page.last:
        return
    letters = set().union(*(entry.path for entry in page.entries))
    with ThreadPoolExecutor(_THREADS) as pool:
        # Running request -> the end of its range.
        pending: dict[Future[Page], str | None] = {}

        def list_range(after: str, before: str | None) -> None:
            pending[pool.submit(list_page, after, before)] = before

        try:
            list_range(page.last, before)
            while pending:
                for done in wait(pending, return_when=FIRST_COMPLETED).done:
                    before = pending.pop(done)
                    page = done.result()
                    if page.last:
                        letters.update(page.last)
                        is_idle = len(pending) + 1 < _THREADS
                        middle = find_middle(page.first, page.last, before, letters) if is_idle else None
                        list_range(page.last, middle or before)
                        if middle:
                            list_range(middle, before)
                    yield page
        finally:
            pool.shutdown(cancel_futures=True)


def find_middle(first: str, last: str, before: str | None, letters: Collection[str]) -> str | None:
    """Returns a name that about halves the rest of a range, or None if the known names give no hint.

    Names often share a long prefix, such as a folder: then all names with that prefix come first. Within the prefix,
    the alphabet of the names is halved.

    Args:
      first: the first name on the last page.
      last: the last name on the last page.
      before: the last name of the range, or None for the end of all names.
      letters: characters of names.
    """
    stem = first[: _shared(first, last)][:-_COUNTING]
    middle = _behind(stem)
    if not middle or (before is not None and middle >= before):
        middle = _halve(last, before, sorted(letters))
    return middle if last < middle and (before is None or middle < before) else None


def _halve(after: str, before: str | None, alphabet: Sequence[str]) -> str:
    """Returns the middle of two names, read as numbers with letters as digits."""
    # Digits are 1 to len(alphabet); 0 marks the end of a name.
    base = len(alphabet) + 1
    same = _shared(after, before or "")

    def number(name: str) -> int:
        value = 0
        for place in range(same, same + _DIGITS):
            digit = bisect.bisect_right(alphabet, name[place]) if place < len(name) else 0
            value = value * base + digit
        return value

    value = (number(after) + (number(before) if before is not None else base**_DIGITS)) // 2
    digits = [value // base**place % base for place in reversed(range(_DIGITS))]
    return after[:same] + "".join(alphabet[digit - 1] for digit in itertools.takewhile(bool, digits))


def _shared(one: str, other: str) -> int:
    """Returns the length of the common prefix."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
