"""Archives of every form, and damaged ones."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zstandard

# Kinds of described members that have bytes.
FILLED = frozenset({"encrypted", "bzip2", "lzma", "stored"})
_METHODS = {"bzip2": zipfile.ZIP_BZIP2, "lzma": zipfile.ZIP_LZMA, "stored": zipfile.ZIP_STORED}
_KINDS = {"link": tarfile.SYMTYPE, "hard_link": tarfile.LNKTYPE, "pipe": tarfile.FIFOTYPE, "folder": tarfile.DIRTYPE}
KINDS = FILLED | _KINDS.keys()
_MODES = {"link": stat.S_IFLNK, "pipe": stat.S_IFIFO, "folder": stat.S_IFDIR}
COMPRESS = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "tgz": lambda data: gzip.compress(data, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


def tar_of(members: Mapping[str, Any], *, compression: str = "") -> bytes:
    """Returns a tar archive.

    Args:
      members: name -> bytes, or its description: `{link: target}`, `{hard_link: target}`, `{pipe: }` or `{folder: }`;
        `+` at the end of a name makes another member of that name.
      compression: its extension, such as `gz`.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name.rstrip("+"))
            if isinstance(data, Mapping):
                ((kind, target),) = data.items()
                member.type, member.linkname = _KINDS[kind], target or ""
                archive.addfile(member)
            else:
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return COMPRESS.get(compression, bytes)(content.getvalue())


def zip_of(members: Mapping[str, Any]) -> bytes:
    """Returns a zip archive.

    Args:
      members: as of `tar_of`; also `{encrypted: bytes}`, and `{bzip2: bytes}`, `{lzma: bytes}` and `{stored: bytes}`
        for other methods than Deflate.
    """
    content = io.BytesIO()
    encrypted = []
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            member = zipfile.ZipInfo(name.rstrip("+"))
            member.compress_type = zipfile.ZIP_DEFLATED
            ((kind, value),) = data.items() if isinstance(data, Mapping) else (("", data),)
            member.compress_type = _METHODS.get(kind, member.compress_type)
            member.external_attr = _MODES.get(kind, 0) << 16
            if kind == "encrypted":
                encrypted.append(member)
            archive.writestr(member, value or b"")
        places = {one.filename: one.header_offset for one in encrypted}
    packed = bytearray(content.getvalue())
    for name, offset in places.items():
        packed[offset + 6] |= 1
        packed[packed.rindex(name.encode()) - 46 + 8] |= 1
    return bytes(packed)


def write_archive(path: Path, members: Mapping[str, Any]) -> None:
    """Writes an archive of the form that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix.lower() == ".zip":
        path.write_bytes(zip_of(members))
    else:
        path.write_bytes(tar_of(members, compression=path.suffix.lower()[1:]))


def pack_folder(folder: Path, path: Path) -> None:
    """Packs the files of a folder, sorted by name."""
    files = sorted(one for one in folder.rglob("*") if one.is_file())
    write_archive(path, {one.relative_to(folder).as_posix(): one.read_bytes() for one in files})


def damaged(data: bytes, how: str) -> bytes:
    """Returns damaged bytes: `cut N` (from the end, if negative), `flip N`, `zeros N` behind them, `append TEXT`."""
    kind, _, value = how.partition(" ")
    if kind == "cut":
        return data[: int(value)]
    if kind == "flip":
        at = int(value) % len(data)
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    return data + (bytes(int(value)) if kind == "zeros" else value.encode())
