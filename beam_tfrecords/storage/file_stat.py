"""Stats local paths: an entry, no entry, or an error that leaves the answer open.

`os.path.exists` and similar functions, the methods of `pathlib.Path` and some of `os.DirEntry` treat every error as
"does not exist". A disk that does not answer, a stale handle or a forbidden folder proves nothing, so only these
functions stat files.
"""

from __future__ import annotations

import errno
import os
import stat as file_mode

# Errors for a path that names nothing; a name that is too long cannot exist either.
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def is_nothing(error: OSError) -> bool:
    """Whether an error says that a path does not exist."""
    return error.errno in _NOTHING


def look(path: str, *, follow: bool = True) -> os.stat_result | None:
    """Returns the status of a path; None if it does not exist, or is a dangling link.

    Args:
      path: a local path.
      follow: False stats a link itself.

    Raises:
      OSError: the status cannot be determined.
    """
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError as error:
        if not is_nothing(error):
            raise
    except ValueError:  # a zero byte or a surrogate, which no file name contains
        pass
    return None


def exists(path: str) -> bool:
    """Whether a file or folder exists; raises as `look`."""
    return look(path) is not None


def is_file(path: str) -> bool:
    """Whether the path is a regular file; raises as `look`."""
    return is_regular(look(path))


def is_folder(path: str) -> bool:
    """Whether the path is a folder; raises as `look`."""
    status = look(path)
    return status is not None and file_mode.S_ISDIR(status.st_mode)


def make_folder(path: str) -> None:
    """Creates a folder and its parents, unless they exist.

    Raises:
      NotADirectoryError: the path is not a folder.
      OSError: the folder cannot be created or checked.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError as error:
        # `makedirs` uses `os.path.isdir`; callers would take this error for a file that another process created.
        if not is_folder(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from error


def is_link(path: str) -> bool:
    """Whether the path is a link, dangling or not; raises as `look`."""
    status = look(path, follow=False)
    return status is not None and file_mode.S_ISLNK(status.st_mode)


def is_broken_link(path: str) -> bool:
    """Whether the path is a link to nothing or to itself; raises as `look`."""
    return look(path) is None and look(path, follow=False) is not None


def is_regular(status: os.stat_result | None) -> bool:
    """Whether a status belongs to a regular file."""
    return status is not None and file_mode.S_ISREG(status.st_mode)


def look_at_entry(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Returns the status of a directory entry, as `look` does."""
    try:
        return entry.stat()
    except OSError as error:
        if not is_nothing(error):
            raise
    return None


def is_folder_entry(entry: os.DirEntry[str]) -> bool:
    """Whether a directory entry is a folder; on most systems, only links need a call to the disk."""
    try:
        return entry.is_dir()
    except OSError as error:
        if not is_nothing(error):
            raise
    return False


def is_link_entry(entry: os.DirEntry[str]) -> bool:
    """Whether a directory entry is a link."""
    return entry.is_symlink()


def is_broken_entry(entry: os.DirEntry[str]) -> bool:
    """Whether a directory entry is a link to nothing or to itself."""
    return is_link_entry(entry) and look_at_entry(entry) is None
