"""What is at a local path: something, nothing, or an error that leaves it open.

`os.path.exists` and its kind, the methods of `pathlib.Path` and some of `os.DirEntry` take every error for a no. A disk
that does not answer, a stale handle or a folder that may not be entered has not said that nothing is there: only these
functions ask.
"""

from __future__ import annotations

import errno
import os
import stat as file_mode

# What a system says of a path that names nothing; no file has a name that is too long.
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def is_nothing(error: OSError) -> bool:
    """Whether an error says that there is nothing at a path."""
    return error.errno in _NOTHING


def look(path: str, *, follow: bool = True) -> os.stat_result | None:
    """The status of what is at a path; None if there is nothing, or a link to nothing.

    Args:
      path: local.
      follow: False looks at a link itself.

    Raises:
      OSError: it cannot be found out.
    """
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError as error:
        if not is_nothing(error):
            raise
    except ValueError:  # a zero byte, or a surrogate: no file has such a name
        pass
    return None


def exists(path: str) -> bool:
    """Whether there is a file or folder; raises as `look`."""
    return look(path) is not None


def is_file(path: str) -> bool:
    """Whether there is a regular file; raises as `look`."""
    return is_regular(look(path))


def is_folder(path: str) -> bool:
    """Whether there is a folder; raises as `look`."""
    status = look(path)
    return status is not None and file_mode.S_ISDIR(status.st_mode)


def make_folder(path: str) -> None:
    """Makes a folder and those above it, unless they are there.

    Raises:
      NotADirectoryError: something else has the name.
      OSError: it cannot be made, or cannot be looked at.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError as error:
        # `makedirs` asks `os.path.isdir`; callers take this error for a file that somebody else made first.
        if not is_folder(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error


def is_link(path: str) -> bool:
    """Whether there is a link, to whatever; raises as `look`."""
    status = look(path, follow=False)
    return status is not None and file_mode.S_ISLNK(status.st_mode)


def is_broken_link(path: str) -> bool:
    """Whether there is a link to nothing, or to itself; raises as `look`."""
    return look(path) is None and look(path, follow=False) is not None


def is_regular(status: os.stat_result | None) -> bool:
    """Whether a status is that of a regular file."""
    return status is not None and file_mode.S_ISREG(status.st_mode)


def look_at_entry(entry: os.DirEntry[str]) -> os.stat_result | None:
    """As `look`, of an entry of a folder."""
    try:
        return entry.stat()
    except OSError as error:
        if not is_nothing(error):
            raise
    return None


def is_folder_entry(entry: os.DirEntry[str]) -> bool:
    """As `is_folder`, of an entry of a folder; asks the disk about links alone, on most systems."""
    try:
        return entry.is_dir()
    except OSError as error:
        if not is_nothing(error):
            raise
    return False


def is_link_entry(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a folder is a link."""
    return entry.is_symlink()


def is_broken_entry(entry: os.DirEntry[str]) -> bool:
    """As `is_broken_link`, of an entry of a folder."""
    return is_link_entry(entry) and look_at_entry(entry) is None
