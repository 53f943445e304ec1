"""Files that annotate images by their structure: one for each image, for each folder of images, or for all."""

from __future__ import annotations

import contextlib
import io
import itertools
import posixpath
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.detect.box_columns import has_box_names
from beam_tfrecords.transforms.sources.detect.label_columns import FRACTION
from beam_tfrecords.transforms.sources.detect.tree import FolderTree, pair_stem, thing_of
from beam_tfrecords.transforms.sources.inputs import folder_of_archive
from beam_tfrecords.transforms.sources.names import is_about_folder, is_image_name, stem_of
from beam_tfrecords.transforms.sources.registry import source_of_file

# Texts that may be plain lists, and extensions of tables, lists and documents.
LISTS = (".txt", ".lst", ".dat")
_READABLE = frozenset({*LISTS, ".json", ".xml", ".csv", ".tsv", ".jsonl", ".pts", ".gt", ".yaml", ".yml"})
# Extensions of archives, and of films and pictures that no source reads.
_ARCHIVES = frozenset({".7z", ".gz", ".rar", ".tar", ".tgz", ".zip"})
_PICTURES = frozenset(
    {
        ".arw", ".avi", ".cr2", ".cr3", ".dng", ".mkv", ".mov", ".mp4", ".nef", ".orf", ".psd", ".raf", ".rw2", ".svg",
        ".webm",
    }
)  # fmt: skip
# Extensions of files about the file of an image, its place on the earth or its original, and of sounds.
_OF_FILES = frozenset(
    {
        *_ARCHIVES, *_PICTURES, ".aae", ".db", ".htm", ".html", ".ini", ".jgw", ".log", ".md5", ".mp3", ".ovr", ".pgw",
        ".prj", ".sha1", ".sha256", ".tfw", ".thm", ".tmp", ".wav", ".wld", ".xmp",
    }
)  # fmt: skip
_TABLES = (".csv", ".tsv")
# Extensions of files whose rows may follow the order of the images, and the minimum number of images.
_IN_ORDER, _LEAST_IN_ORDER = (*LISTS, *_TABLES), 8
_DOCUMENTS = (".json", ".xlsx", ".yaml", ".yml")
# Numbers of files that are looked into, of their rows, of images that they name, and of words that a class has at most.
_MOST_DOCUMENTS, _MOST_NAMED, _LEAST_NAMED, _MOST_OF_CLASS = 8, 200, 3, 3
# Share of the files that belong to an image.
_MOST = 0.8
# Rows to look at, words of each, and folders in which these may be images.
_MOST_ROWS, _MOST_WORDS, _MOST_PLACES = 5, 8, 4
_START_BYTES, _MOST_BYTES = 16 << 10, 4 << 20
_WORDS = re.compile(r"[^\s,;:\"'\[\]{}|]+")
# Numbers, and how many of them say a box.
_NUMBERS, _LEAST_NUMBERS = re.compile(r"(?<![^\s,;\"])-?\d+(?:\.\d+)?(?![^\s,;\"])"), 4


def find_companions(tree: FolderTree, root: str, classes: Sequence[str]) -> Iterator[str]:
    """Yields globs of the files that annotate the images in class folders.

    Args:
      tree: the folders.
      root: path of their root folder; "" if files cannot be read, so that names decide.
      classes: paths of the class folders.
    """
    yield from find_files_of_images(tree)
    if root:
        yield from _find_alike(tree, root, classes)
        yield from _find_files_of_folders(tree, root, classes)
    # A single class is a question of its own.
    if root and len(classes) != 1:
        yield from _find_documents(tree, root)
        yield from _find_in_order(tree, root)


def find_files_of_images(tree: FolderTree) -> Iterator[str]:
    """Yields globs of the files each of which belongs to one image, by its name."""
    # As 1_rgb.png and 1_pose.txt.
    stems = tree.image_stems | {*map(pair_stem, tree.image_stems)}
    for path, folder in tree.walk():
        for extension in sorted(folder.others.keys() - _OF_FILES):
            names = [name for name in tree.others(path) if name.lower().endswith(extension)]
            # GDAL writes statistics of the pixels.
            names = [name for name in names if not name.endswith(".aux.xml")]
            # As 1.txt or 1.jpg.txt.
            of_images = [
                name
                for name in names
                if not stems.isdisjoint({name[: -len(extension)], name.partition(".")[0], pair_stem(stem_of(name))})
            ]
            if len(of_images) > 1 and len(of_images) >= _MOST * len(names):
                yield posixpath.join(path, f"*{extension}")


def _find_files_of_folders(tree: FolderTree, root: str, classes: Sequence[str]) -> Iterator[str]:
    """Yields globs of the files that have the names of class folders and numbers, as of the frames of a film."""
    names = {*map(posixpath.basename, classes)}
    for path, folder in tree.walk():
        for extension in sorted(_READABLE & {*folder.others}):
            found = [one for one in tree.others(path) if one.endswith(extension) and stem_of(one) in names]
            if 1 < len(found) >= _MOST * len(names) and _holds_numbers(storage.join(root, path, found[0])):
                yield posixpath.join(path, f"*{extension}")


def _holds_numbers(path: str) -> bool:
    """Whether the first row of a text, or the start of a document, may have the numbers of a box."""
    start = _read_start(path)
    return len(_NUMBERS.findall(start.partition("\n")[0] if path.endswith(".txt") else start)) >= _LEAST_NUMBERS


def _find_documents(tree: FolderTree, root: str) -> Iterator[str]:
    """Yields the files that name several images and say more about them than a class, and globs of those for one."""
    # A folder of such files has no images.
    bare = [(path, folder) for path, folder in tree.walk() if not folder.images]
    kinds = ((path, extension) for path, folder in bare for extension in sorted(_READABLE & {*folder.others}))
    for path, extension in itertools.islice(kinds, _MOST_DOCUMENTS):
        names = [name for name in tree.others(path) if name.lower().endswith(extension)]
        texts = [_read_start(storage.join(root, path, name)) for name in names[:_MOST_PLACES]]
        named = [{*map(stem_of, _find_named(text.splitlines(), tree.image_words))} for text in texts]
        if len(named) > 1 and all(len(one) == 1 for one in named):
            yield posixpath.join(path, f"*{extension}")
    paths = tree.find_others(
        lambda name: posixpath.splitext(name)[1].lower() in _READABLE and not is_about_folder(name)
    )
    for path in paths[:_MOST_DOCUMENTS]:
        whole, extension = storage.join(root, path), posixpath.splitext(path)[1].lower()
        if extension in _TABLES:
            # Images may be named by the numbers of their frames.
            says_more = has_box_names(re.split(r"[,;\t]", _read_start(whole).strip().partition("\n")[0].strip()))
        else:
            rows = find_rows_of_images(whole, tree.image_words)
            # A fraction is no class.
            says_more = bool(rows) and (
                extension not in LISTS
                or any(
                    len(words) > _MOST_OF_CLASS or any(map(FRACTION.fullmatch, words)) for words in map(str.split, rows)
                )
            )
        if says_more:
            yield path


def _find_in_order(tree: FolderTree, root: str) -> Iterator[str]:
    """Yields the texts and tables that have one row per image but name no images, so that their order pairs them."""
    names = tree.image_names | tree.image_stems
    paths = tree.find_others(lambda name: name.lower().endswith(_IN_ORDER) and not is_about_folder(name))
    known = sum(len(folder.names) for _, folder in tree.walk())
    for path in paths[:_MOST_DOCUMENTS]:
        counts = {tree.total(posixpath.dirname(path)), tree.total()} - {*range(_LEAST_IN_ORDER)}
        whole = storage.join(root, path)
        if not counts or storage.stat(whole).size > _MOST_BYTES:
            continue
        rows = [row for row in _read_start(whole, _MOST_BYTES).splitlines() if row.strip()]
        # The first row may be a header.
        if counts & {len(rows), len(rows) - path.lower().endswith(_TABLES)}:
            named = sum(not names.isdisjoint(map(posixpath.basename, _WORDS.findall(row))) for row in rows)
            if 2 * named < known:
                yield path


def find_lost(tree: FolderTree, root: str, bases: Sequence[str]) -> Iterator[str]:
    """Yields globs of what may hold further images of classes: archives, and folders of pictures that are not read.

    Args:
      tree: the folders.
      root: path of their root folder.
      bases: paths of the folders that hold the class folders.
    """
    for path, folder in tree.walk():
        is_alone = path.rpartition("/")[0] in bases and path not in bases and not tree.total(path)
        kinds = _ARCHIVES | _PICTURES if is_alone else _ARCHIVES if path in bases else frozenset()
        for extension in sorted(kinds & folder.others.keys()):
            names = [one for one in tree.others(path) if one.lower().endswith(extension)]
            if extension in _PICTURES:
                are_lost = folder.others[extension] >= _LEAST_NAMED
            else:
                are_lost = not all(_is_unpacked(tree, root, posixpath.join(path, one)) for one in names)
            if are_lost:
                yield posixpath.join(path, names[0] if len(names) == 1 else f"*{extension}")


def _is_unpacked(tree: FolderTree, root: str, path: str) -> bool:
    """Whether an archive lies beside a folder of its name, or its first images also exist as files."""
    archive, beside = storage.join(root, path), posixpath.dirname(path)
    kind = source_of_file(archive)
    if stem_of(path) in tree.below(beside) or (kind is None and path.endswith(".gz")):
        return True
    # An archive inside an archive is not opened.
    if kind not in ("tar", "zip") or storage.archive_of(root):
        return False
    inside = folder_of_archive(archive)
    files = (one.path[len(inside) :].lstrip("/") for one in storage.list_files(inside, literal=True))
    places = [storage.join(root, beside) if beside else root, storage.dirname(root)]
    return all(
        any(storage.is_file(storage.join(place, one)) for place in places for one in (name, name.partition("/")[2]))
        for name in itertools.islice(filter(is_image_name, files), _MOST_ROWS)
    )


def find_documents_of_folders(tree: FolderTree, root: str, folders: Sequence[str]) -> Iterator[str]:
    """Yields the documents, and tables of Excel, that name most of some folders."""
    names = {posixpath.basename(folder) for folder in folders}
    for path in tree.find_others(lambda name: name.lower().endswith(_DOCUMENTS))[:_MOST_DOCUMENTS]:
        words = {word for one in _WORDS.findall(_read_start(storage.join(root, path))) for word in (one, stem_of(one))}
        if len(names) >= _LEAST_NAMED and len(names & words) >= _MOST * len(names):
            yield path


def find_rows_of_images(path: str, names: Collection[str]) -> list[str]:
    """Returns the first rows of a text file that names several images; [] for another file.

    Args:
      path: path of the file.
      names: names of the images.
    """
    rows = [row for row in _read_start(path).splitlines() if row.strip()][:_MOST_NAMED]
    return rows if len(_find_named(rows, names)) >= min(_LEAST_NAMED, len(names)) > 0 else []


def _find_named(rows: Sequence[str], names: Collection[str]) -> set[str]:
    """Returns the names that occur in some rows."""
    words = {posixpath.basename(word) for row in rows for word in _WORDS.findall(row)}
    return (words | {*map(thing_of, words)}) & {*names}


def _find_alike(tree: FolderTree, root: str, classes: Sequence[str]) -> Iterator[str]:
    """Yields the files of one name in most class folders whose rows name the images there, or have numbers."""
    found: dict[str, list[str]] = {}
    for one in classes:
        for path, _ in tree.walk(one):
            for name in tree.others(path):
                if posixpath.splitext(name)[1].lower() in _READABLE and not is_about_folder(name):
                    found.setdefault(posixpath.join(path, name)[len(one) + 1 :], []).append(one)
    for below, folders in found.items():
        first = storage.join(root, folders[0])
        if 1 < len(folders) >= _MOST * len(classes) and (
            names_images(tree.inside(folders[0]), first, below)
            or (below.endswith(".txt") and _holds_numbers(storage.join(first, below)))
        ):
            yield f"{below} in each folder"


def names_images(tree: FolderTree, root: str, path: str) -> bool:
    """Whether the first rows of a text file name images in the folders, perhaps after a header.

    Args:
      tree: the folders.
      root: path of their root folder.
      path: path of the file below it.
    """
    text = _read_start(storage.join(root, path))
    rows = [_WORDS.findall(row)[:_MOST_WORDS] for row in text.splitlines() if row.strip()]
    folders = [folder for folder, held in tree.walk() if held.images]
    held = [(folder, tree.names([folder])) for folder in folders[:_MOST_PLACES]]
    # Paths may be relative to the input or to a folder in it, such as that of a split.
    starts = dict.fromkeys(["", *map(posixpath.dirname, folders)])
    every = [name for _, names in held for name in names]
    places = [*held, *((folder, every) for folder in [*starts][:_MOST_PLACES])]
    some = rows[1 : _MOST_ROWS + 1] or rows
    return bool(some) and all(
        any(_is_image(word, storage.join(root, folder), names) for word in row for folder, names in places)
        for row in some
    )


def _read_start(path: str, most: int = _START_BYTES) -> str:
    """Returns the start of a text, or the texts in the cells of a table of Excel.

    Args:
      path: path of the file.
      most: number of bytes to read of a text.
    """
    is_book = path.lower().endswith(".xlsx")
    data = storage.read_range(path, 0, min(storage.stat(path).size, _MOST_BYTES if is_book else most))
    if is_book:
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(data)) as book:
            cells = [book.read(name) for name in book.namelist() if re.match("xl/(?:sharedStrings|worksheets/)", name)]
            data = re.sub(rb"<[^>]*>", b" ", b" ".join(cells))
    text = data.decode(errors="replace")
    return text.replace("\\", "/")  # Paths may be written on Windows.


def _is_image(word: str, folder: str, names: Sequence[str]) -> bool:
    """Whether a word is the path of an image in a folder, without its extension or leading zeros too."""
    split = [posixpath.splitext(name) for name in names]
    if storage.has_scheme(folder):
        # Some names are known; to ask the store for each word would take minutes.
        return posixpath.basename(word) in {*names, *(stem for stem, _ in split)}
    widths = {len(stem) if stem.isdecimal() else 0 for stem, _ in split}
    padded = {word.zfill(width) for width in widths} if word.isdecimal() else {word}
    endings = {"", *(extension for _, extension in split)}
    return any(storage.is_file(storage.join(folder, one + ending)) for one in padded | {word} for ending in endings)
