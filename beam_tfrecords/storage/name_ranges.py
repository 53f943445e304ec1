"""Lists very many objects at once: each thread lists a range of names, and takes half of another's when it is done.

Stores list a thousand names a page, in the order of their UTF-8 bytes; a page takes 0.02 to 0.2 s. Page after page, a
billion objects take two days.
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
from beam_tfrecords.storage.entries import FileEntry

# The most that stores put on a page.
_PAGE = 1000
# Pages that are listed before ranges are; and ranges that are listed at once.
_FIRST_PAGES = 10
_THREADS = 16
# Characters behind the common beginning of two names that decide where their middle is.
_DIGITS = 8
# Characters at the end of what the names of a page share that are taken for a number.
_COUNTING = 3


class Page(NamedTuple):
    """Objects with subsequent names.

    Attributes:
      entries: the objects.
      first: the first name.
      last: the last name; "" if there are no more names in the range.
    """

    entries: Sequence[FileEntry]
    first: str
    last: str


# Lists names behind the first one and up to the second one, itself included, as many as the store gives at a time. ""
# and None are before and behind all names.
ListPage: TypeAlias = Callable[[str, "str | None"], Page]


def list_below(
    root: str, name: str, list_page: Callable[..., Page], *, limit: int | None, literal: bool
) -> Iterator[FileEntry]:
    """All objects below a folder, or all that match a glob; see `storage.list_files`.

    Args:
      root: of the bucket, with a slash at the end.
      name: of the folder or glob.
      list_page: a `ListPage`, with the arguments `prefix` of the names and `size` of a page.
      limit: lists at most this many.
      literal: `name` is a folder, never a glob.
    """
    is_glob = paths.is_glob(name) and not literal
    matches = paths.compile_glob(name).fullmatch if is_glob else None
    prefix = paths.literal_prefix(name) if is_glob else paths.folder_prefix(name)
    size = _PAGE if is_glob or limit is None else max(1, min(limit, _PAGE))
    list_these = functools.partial(list_page, prefix=prefix, size=size)
    pages = list_at_once(list_these) if limit is None else list_in_order(list_these)
    with contextlib.closing(pages):
        entries = itertools.chain.from_iterable(page.entries for page in pages)
        found = entries if matches is None else (entry for entry in entries if matches(entry.path[len(root) :]))
        yield from itertools.islice(found, limit)


def list_in_order(list_page: ListPage) -> Generator[Page, None, None]:
    """All pages, one after the other."""
    page = list_page("", None)
    yield page
    while page.last:
        page = list_page(page.last, None)
        yield page


def list_at_once(list_page: ListPage) -> Generator[Page, None, None]:
    """All pages; after the first ones, many at once and in no set order.

    Args:
      list_page: lists a page; called in threads.
    """
    page = Page((), "", "")
    for page in itertools.islice(list_in_order(list_page), _FIRST_PAGES):
        yield page
    if not page.last:
        return
    letters = set().union(*(entry.path for entry in page.entries))
    with ThreadPoolExecutor(_THREADS) as pool:
        # What is listed -> the end of its range.
        pending: dict[Future[Page], str | None] = {}

        def list_range(after: str, before: str | None) -> None:
            pending[pool.submit(list_page, after, before)] = before

        try:
            list_range(page.last, None)
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
    """A name that halves what is left of a range, as far as names tell; None if they tell nothing.

    Names often share a long beginning, such as a folder: all that share it come first. Below it, the half of the
    letters.

    Args:
      first: the first name on the last page.
      last: the last name on it.
      before: the last name of the range, or None for the end of all names.
      letters: characters of names.
    """
    stem = first[: _shared(first, last)][:-_COUNTING]
    # Behind all names with the stem; the characters behind this one are no text.
    middle = stem[:-1] + chr(ord(stem[-1]) + 1) if stem and stem[-1] < "\ud7ff" else ""
    if not middle or (before is not None and middle >= before):
        middle = _halve(last, before, sorted(letters))
    return middle if last < middle and (before is None or middle < before) else None


def _halve(after: str, before: str | None, alphabet: Sequence[str]) -> str:
    """The name in the middle between two, if names were numbers with the letters as digits."""
    # Digits are 1 to len(alphabet); 0 is the end of a name.
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
    """How many characters both begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
