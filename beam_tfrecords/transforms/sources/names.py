"""Which files are images, by their names. Pure functions of the path below the root."""

from __future__ import annotations

import re

# The formats of Pillow and its maintained plugins, with the extensions that cameras and phones use.
# fmt: off
IMAGE_EXTENSIONS = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".jif", ".mpo", ".png", ".apng", ".gif", ".webp", ".bmp", ".dib",
    ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".pfm", ".avif", ".avifs", ".heic", ".heics", ".heif",
    ".heifs", ".hif", ".jxl", ".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx", ".ico", ".icns", ".cur",
    ".tga", ".pcx", ".qoi", ".dds", ".sgi", ".rgb", ".rgba", ".bw", ".psd", ".xbm", ".xpm",
})
# fmt: on
# Folders that archivers, network disks and desktops add, in lower case; their thumbnails look like images.
_SYSTEM_FOLDERS = frozenset({"__macosx", "@eadir", "#recycle", "$recycle.bin", "lost+found"})
# Files without an extension that come with datasets, in lower case.
_DOCUMENTS = frozenset({
    "license", "licence", "copying", "copyright", "readme", "notice", "changelog", "authors", "makefile", "dockerfile",
    "manifest", "_success",
})  # fmt: skip
# Those of images that tables name; a column may be called `mean.rgb`.
_USUAL_IMAGE = re.compile(r"\.(jpe?g|png|gif|bmp|webp|tiff?|jp2|avif|heic|ppm|pgm)$", re.IGNORECASE)
NOT_AN_IMAGE = "not an image"
FOLDER_MARKER = "folder marker"


def skipped_kind(relative: str) -> str | None:
    """Why a file is not a sample, by its path; None if it may be one.

    Args:
      relative: path below the root, with `/` between the folders.

    Returns:
      "hidden", "system folder", "folder marker", "not an image" or the extension in lower case.
    """
    if relative.startswith(".") or "/." in relative:
        return "hidden"
    folders, _, name = relative.rpartition("/")
    if not _SYSTEM_FOLDERS.isdisjoint(folders.lower().split("/")):
        return "system folder"
    if not name:
        return FOLDER_MARKER
    dot = name.rfind(".")
    if dot < 0:
        return NOT_AN_IMAGE if name.lower() in _DOCUMENTS else None
    extension = name[dot:].lower()
    return None if extension in IMAGE_EXTENSIONS else printable(extension)


def is_image_name(text: str) -> bool:
    """Whether a cell of a table ends as the name of an image file usually does."""
    return bool(_USUAL_IMAGE.search(text))


def has_extension(relative: str) -> bool:
    """Whether a file's name says what is in it."""
    return "." in relative.rpartition("/")[2]


def is_system_folder(name: str) -> bool:
    """Whether a folder is one that an archiver, a network disk or a desktop adds."""
    return name.lower() in _SYSTEM_FOLDERS


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
