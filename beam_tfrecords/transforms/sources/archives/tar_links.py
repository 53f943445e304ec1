"""Resolves the links in a tar archive to its members, by reading the headers again."""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.sources.containers import member_path

# Longest chain of links; the same limit as on Linux.
_MOST_LINKS = 40

# Opens the archive again, and iterates over its headers up to its end or first damage.
OpenHeaders = Callable[[], AbstractContextManager[Iterator[tarfile.TarInfo]]]


@dataclasses.dataclass(frozen=True)
class Target:
    """A member that is the target of a link: offsets of its header and its data, and its size in bytes."""

    offset: int
    offset_data: int
    size: int


@dataclasses.dataclass(frozen=True)
class _Link:
    """A link: the path of its target, and the offset of its header if it is a hard link.

    A hard link refers to the last member with that path before it, a symbolic link to the last member with that path.
    """

    path: str
    before: int | None


class TarLinks:
    """The links of an archive and their targets. Memory is proportional to the number of links.

    Args:
      headers: opens the archive.
    """

    def __init__(self, headers: OpenHeaders) -> None:
        self._headers = headers
        self._links: dict[str, _Link] | None = None
        self._targets: Mapping[str, list[Target]] = {}

    def find(self, member: tarfile.TarInfo) -> Target | None:
        """Returns the target of a link; None if it is a folder, or not in the archive."""
        if self._links is None:
            self._links = self._read_links()
            self._targets = self._read_targets({link.path for link in self._links.values()})
        link, before = _link_of(member), None
        for _ in range(_MOST_LINKS):
            if link is None:
                return None
            before = link.before if before is None else before
            found = [one for one in self._targets.get(link.path, ()) if before is None or one.offset < before]
            if found:
                return found[-1]
            link = self._links.get(link.path)
        return None

    def targets(self) -> set[int]:
        """Returns the header offsets of all targets."""
        return {target.offset for found in self._targets.values() for target in found}

    def _read_links(self) -> dict[str, _Link]:
        links = {}
        with self._open() as headers:
            for member in headers:
                link = _link_of(member)
                if link is not None:
                    links[member_path(member.name)] = link
        return links

    def _read_targets(self, wanted: set[str]) -> dict[str, list[Target]]:
        targets: dict[str, list[Target]] = {}
        with self._open() as headers:
            for member in headers:
                path = member_path(member.name)
                if path in wanted and member.isreg() and not member.issparse():
                    targets.setdefault(path, []).append(Target(member.offset, member.offset_data, member.size))
        return targets

    @contextlib.contextmanager
    def _open(self) -> Iterator[Iterator[tarfile.TarInfo]]:
        # Ignores damage, because reading the members reports it.
        with contextlib.suppress(SampleError), self._headers() as headers:
            yield headers


def _link_of(member: tarfile.TarInfo) -> _Link | None:
    """Returns the link of a header; None if it is not a link, or leads outside the archive."""
    if member.islnk():
        return _Link(member_path(member.linkname), member.offset)
    if not member.issym() or member.linkname.startswith("/"):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(member_path(member.name)), member.linkname))
    return None if path.startswith("..") else _Link(path, None)
