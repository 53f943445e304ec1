"""Which files are images, by their names. Pure functions of the path below the root."""

from __future__ import annotations

# The formats of Pillow and its maintained plugins, with the extensions that cameras and phones use.
# fmt: off
IMAGE_EXTENSIONS = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".jif", ".mpo", ".png", ".apng", ".gif", ".webp", ".bmp", ".dib",
    ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".pfm", ".avif", ".avifs", ".heic", ".heics", ".heif",
    ".heifs", ".hif", ".jxl", ".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx", ".ico", ".icns", ".cur",
    ".tga", ".pcx", ".qoi", ".dds", ".sgi", ".rgb", ".rgba", ".bw", ".psd", ".xbm", ".xpm",
})
# fmt: on
SPLIT_FOLDERS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}


def skipped_kind(relative: str) -> str | None:
    """Why a file is not a sample: "hidden", "folder marker" or its extension in lower case; None if it is one.

    Args:
      relative: path below the root, with `/` between the folders.
    """
    if relative.startswith(".") or "/." in relative:
        return "hidden"
    name = relative.rpartition("/")[2]
    if not name:
        return "folder marker"
    dot = name.rfind(".")
    if dot < 0:
        return None
    extension = name[dot:].lower()
    return None if extension in IMAGE_EXTENSIONS else printable(extension)


def is_utf8(path: str) -> bool:
    """Whether a name from the file system is valid UTF-8; Python keeps other bytes as surrogates."""
    if path.isascii():
        return True
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(path: str) -> str:
    r"""The name with every byte that is not valid UTF-8 written as an escape like `\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
