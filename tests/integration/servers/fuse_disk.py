"""A disk in user space, as those of sshfs, s3fs or gcsfuse: without hard links, and with other inodes at every look.

    python fuse_disk.py FOLDER MOUNT_POINT SWITCH

serves a folder until it is unmounted. While the file SWITCH holds `CALL ERRNO PART`, the call fails with this number
for paths that contain this part.
"""

from __future__ import annotations

import errno
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import mfusepy

_INODES = itertools.count(1000)


class FuseDisk(mfusepy.Operations):
    """See above."""

    use_ns = True

    def __init__(self, root: str, switch: str) -> None:
        self._root, self._switch = root, Path(switch)

    def _find(self, call: str, path: str) -> str:
        """The path below the folder that is served.

        Raises:
          FuseOSError: the call is to fail.
        """
        words = self._switch.read_text().split() if self._switch.exists() else []
        if words and words[0] == call and words[2] in path:
            raise mfusepy.FuseOSError(int(words[1]))
        return self._root + path

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._find("chmod", path), mode)
        return 0

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        return os.open(self._find("create", path), os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def open(self, path: str, flags: int) -> int:
        # The kernel gives the place of every write, also to the end.
        return os.open(self._find("open", path), flags & ~os.O_APPEND)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        status = os.lstat(self._find("getattr", path))
        names = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid")
        times = {f"st_{name}": getattr(status, f"st_{name}_ns") for name in ("atime", "mtime", "ctime")}
        return {**{name: getattr(status, name) for name in names}, **times, "st_ino": next(_INODES)}

    def link(self, target: str, source: str) -> int:
        raise mfusepy.FuseOSError(errno.ENOTSUP)

    def symlink(self, target: str, source: str) -> int:
        raise mfusepy.FuseOSError(errno.ENOTSUP)

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self._find("fsync", path)
        os.fsync(fh)
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        raise mfusepy.FuseOSError(errno.EINVAL)

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._find("mkdir", path), mode)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        self._find("read", path)
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        self._find("write", path)
        return os.pwrite(fh, data, offset)

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self._find("readdir", path))]

    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self._find("rename", old), self._root + new)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._find("rmdir", path))
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._find("statfs", path))
        return {name: getattr(found, name) for name in ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_frsize")}

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._find("truncate", path), length)
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._find("unlink", path))
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self._find("utimens", path), ns=times)
        return 0


if __name__ == "__main__":
    mfusepy.FUSE(FuseDisk(sys.argv[1], sys.argv[3]), sys.argv[2], foreground=True, nothreads=True, attr_timeout=0)
