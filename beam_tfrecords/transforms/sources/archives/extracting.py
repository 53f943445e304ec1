"""Extracts small archives to a local folder, to find out what their files mean."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.registry import source_of_file

# What the name of the folder that a command makes of an archive ends in.
EXTRACTED = ".extracted"
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


def extract(archive: str, folder: str, *, most_bytes: int) -> bool:
    """Extracts a local zip or tar archive, without links and special files; returns whether it did.

    Args:
      archive: path of the archive.
      folder: local folder to make.
      most_bytes: largest size of the archive and of its files together; larger ones are not extracted.
    """
    if storage.has_scheme(archive) or not storage.is_file(archive) or storage.stat(archive).size > most_bytes:
        return False
    data = io.BytesIO(storage.read_bytes(archive))
    try:
        if source_of_file(archive) == "zip":
            with zipfile.ZipFile(data) as file:
                fits = sum(info.file_size for info in file.infolist()) <= most_bytes
                if fits:
                    file.extractall(folder)
        else:
            with tarfile.open(fileobj=data) as tar:
                members = [member for member in tar if member.isfile()]
                fits = sum(member.size for member in members) <= most_bytes
                for member in members if fits else ():
                    # `extractall` has a filter only since Python 3.10.12 and 3.11.4.
                    name = member.name.lstrip("/")
                    if ".." in name.split("/"):
                        return False
                    opened = tar.extractfile(member)
                    storage.write_bytes(storage.join(folder, name), opened.read() if opened else b"")
    except _DAMAGE:
        return False
    return fits
