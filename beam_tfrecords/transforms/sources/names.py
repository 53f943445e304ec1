"""Tells images from other files by name. Pure functions of the path below the root."""

from __future__ import annotations

import posixpath
import re

# Extensions of the formats that Pillow and its maintained plugins read, including those of cameras and phones.
# fmt: off
IMAGE_EXTENSIONS = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".jif", ".mpo", ".png", ".apng", ".gif", ".webp", ".bmp", ".dib",
    ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".pfm", ".avif", ".avifs", ".heic", ".heics", ".heif",
    ".heifs", ".hif", ".jxl", ".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx", ".ico", ".icns", ".cur",
    ".tga", ".pcx", ".qoi", ".dds", ".sgi", ".rgb", ".rgba", ".bw", ".psd", ".xbm", ".xpm",
})
# fmt: on
# Extensions of files that hold an array, which are images if the request asks for arrays.
_ARRAY_EXTENSIONS = frozenset({".npy"})
# Folders that archivers, network disks and desktops add, in lower case; they contain thumbnails.
_SYSTEM_FOLDERS = frozenset({"__macosx", "@eadir", "#recycle", "$recycle.bin", "lost+found"})
# Files without an extension that datasets often include, in lower case.
_DOCUMENTS = frozenset({
    "license", "licence", "copying", "copyright", "readme", "notice", "changelog", "authors", "makefile", "dockerfile",
    "manifest", "_success",
})  # fmt: skip
# Extensions of images in tables; excludes the rare ones, because a column may be called `mean.rgb`.
_ABOUT_FOLDER = re.compile(
    r"readme|licen[cs]e|copying|^cc-|url|link|credit|source|about|md5|sha\d|checksum", re.IGNORECASE
)
_USUAL_IMAGE = re.compile(r"\.(jpe?g|png|gif|bmp|webp|tiff?|jp2|avif|heic|ppm|pgm)$", re.IGNORECASE)
_NUMBER = re.compile(r"(?<=[A-Za-z])#\d+$")
NOT_AN_IMAGE = "not an image"
FOLDER_MARKER = "folder marker"


def skipped_kind(relative: str, *, arrays: bool = False) -> str | None:
    """Returns why a file is not a sample, based on its path; None if it may be a sample.

    Args:
      relative: path below the root, with `/` as separator.
      arrays: whether a file of an array may be a sample.

    Returns:
      None, "hidden", "system folder", "folder marker", "not an image", or the extension in lower case.
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
    is_image = extension in IMAGE_EXTENSIONS or (arrays and extension in _ARRAY_EXTENSIONS)
    return None if is_image else printable(extension)


def unpaired_kind(relative: str, *, arrays: bool = False) -> str | None:
    """Returns why no name can refer to a file as an image; None if one can. Stricter than `skipped_kind`.

    Args:
      relative: path below the root, with `/` as separator.
      arrays: as for `skipped_kind`.

    Returns:
      As `skipped_kind`; "not an image" without an extension; "name that is not UTF-8".
    """
    without_extension = None if has_extension(relative) else NOT_AN_IMAGE
    kind = skipped_kind(relative, arrays=arrays)
    return kind or without_extension or (None if is_utf8(relative) else "name that is not UTF-8")


def without_number(name: str) -> str:
    """Returns the name of an image without the number of its caption: `1.jpg` for `1.jpg#0`, as in Flickr8k."""
    return _NUMBER.sub("", name)


def is_image_name(text: str) -> bool:
    """Whether a table cell ends with a common image extension."""
    return bool(_USUAL_IMAGE.search(text))


def is_about_folder(name: str) -> bool:
    """Whether a text file says something about a folder, such as a readme, and not about its images."""
    return bool(_ABOUT_FOLDER.search(name))


def stem_of(path: str) -> str:
    """Returns the name of a file without its extension."""
    return posixpath.splitext(posixpath.basename(path))[0]


def has_extension(relative: str) -> bool:
    """Whether a file's name has an extension."""
    return "." in relative.rpartition("/")[2]


def is_system_folder(name: str) -> bool:
    """Whether an archiver, a network disk or a desktop adds folders of this name."""
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
    r"""Returns the name with each byte that is not valid UTF-8 escaped, such as `\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
