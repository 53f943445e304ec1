"""Suggests fixes for image paths in a table or annotations that do not exist, by trying a few similar paths."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError, SampleError
from beam_tfrecords.nearest import find_near
from beam_tfrecords.storage.beside import does_not_exist
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.sources.detect.column_suggestions import (
    FOLDERS,
    above_parts,
    find_stems,
    join_archives,
    list_places,
    offer_pixels,
    read_cells,
    show_images,
)
from beam_tfrecords.transforms.sources.detect.columns import Columns
from beam_tfrecords.transforms.sources.detect.names import (
    is_annotation,
    is_of_another_split,
    likeness,
    normalize,
    split_in_name,
)
from beam_tfrecords.transforms.sources.image_files import as_named
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import printable, stem_of
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.tables.cells import fill_pattern, pattern_columns, read_paths, read_text
from beam_tfrecords.transforms.sources.tables.joined_table import name_joined
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Table, first_cells
from beam_tfrecords.transforms.stats import share_above

# Names of several images in one cell.
_SEVERAL = re.compile(r"\.\w{3,4}\s*[|;,]\s*\S")

# Number of rows to inspect, and of leading folders that may come from another machine.
_ROWS = 5
_MOST_ROWS = 1000
# Number of times that the allowed share may be missing among the first rows of a longer table.
_EXCESS = 3
# Number of remote images to ask for.
_MOST_ASKED = 10
# Number of files to look at for an image.
_MOST_FILES = 20_000
# Folders nearer to the root hold other things than a dataset.
_LEAST_DEPTH = 2
_MOST_FOLDERS = 6
# Further places of images of the same names to look at.
_MOST_RIVALS = 16
_EXTENSIONS = (".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG", ".webp", ".bmp", ".tif", ".gif")


def refuse_missing(table: Table, columns: Columns, roots: Sequence[str], most: float = 1) -> None:
    """Checks whether a table's first images are there.

    Remote storage gets a request for the first image; if it is missing, a few more, for images among the first.

    Args:
      table: a table of the request.
      columns: columns of the table.
      roots: folders to search for the images.
      most: share of the images that may be missing.

    Raises:
      RequestError: none of the first images exists, or too few; suggests the fix if all of the very first exist at
        similar paths.
    """
    images = _with_known_schemes(table, first_images(table, columns))
    if any(map(storage.has_scheme, (table.path, *roots))):
        _refuse_missing_remote(table, images, roots)
        return
    names = list(itertools.islice(images, _ROWS))
    if not _are_missing(names, roots):
        names += itertools.islice(images, _MOST_ROWS - _ROWS)
        _refuse_some_missing(table, columns, names, roots, most)
        return
    suggested = _suggestions(table, columns, names, roots[-1])
    first = next(suggested, None)
    found = _choose(table, columns, first)
    if first in found and isinstance(first, Reading) and "image_root" in first.settings:
        alike = _with_rivals(first, suggested, table.path)
        rows = Counter(itertools.islice(first_images(table, columns), _MOST_ROWS))
        if 1 < max(rows.values()) <= len(alike) and not (columns.boxes or columns.objects):
            # Rows with the same name mean images in different folders, and no column says which folder.
            places = ", ".join(shorten(one.settings["image_root"]) for one in alike)
            raise _refusal(table.path, names, roots, f"the names repeat, as images of several folders do: {places}")
        found = [*alike]
    is_clear = any(isinstance(one, Reading) for one in found)
    joined = [] if is_clear else [*_join(table, columns, names, roots[-1])]
    if found:
        folders = [one.settings.get("image_root") or "" for one in found if isinstance(one, Reading)]
        beside = storage.dirname(table.path)
        above = next(filter(None, (above_parts(one, beside) for one in folders)), None)
        in_parts = [*_join(table, columns, names, roots[-1], beside=above)] if above else []
        raise _refusal(table.path, names, roots, *in_parts, *found, *joined)
    names += itertools.islice(images, _MOST_ROWS - _ROWS)
    if _are_missing(names, roots):
        raise _refusal(table.path, names, roots, "", *joined, *offer_pixels(table))


def _with_known_schemes(table: Table, images: Iterator[str]) -> Iterator[str]:
    """Yields the images.

    Raises:
      RequestError: no file system has the scheme of the first one, such as `azureml://`.
    """
    first = next(images, None)
    if first is not None and storage.has_scheme(first):
        try:
            storage.check_scheme(first)
        except storage.SchemeError as error:
            if error.code != "unknown_scheme":
                raise
            raise RequestError(
                f"{quote_input(table.path)}: {error}; expected paths, which `image_root` completes",
                code="missing_images",
            ) from error
    if first is not None:
        yield first
    yield from images


def _refuse_some_missing(
    table: Table, columns: Columns, rows: Sequence[str], roots: Sequence[str], most: float
) -> None:
    """Refuses a table if more of its first images are missing than may fail.

    Args:
      table: the table.
      columns: columns of the table.
      rows: image paths of the first rows.
      roots: folders to search for the images.
      most: share of the images that may be missing.
    """
    names = list(dict.fromkeys(rows))
    # The rows that follow in a longer table may have fewer faults.
    allowed = most if len(rows) < _MOST_ROWS else _EXCESS * most
    missing = [name for name in names if _are_missing([name], roots)] if allowed < 1 else []
    if len(missing) <= allowed * len(names):
        return
    if several := next((name for name in missing if _SEVERAL.search(name)), None):
        raise RequestError(
            f"{quote_input(table.path)}: {printable(several)} may name several images; expected a name, or a list such "
            'as ["1.jpg", "2.jpg"]',
            code="missing_images",
        )
    # In a path, folders say which of several images of one name is meant.
    folder = _pattern_of(columns).partition("{")[0]
    has_folders = any("/" in name.removeprefix(folder) for name in missing)
    # If most of the images are missing, the rows are about others.
    few = {"max_failures": share_above(len(missing), len(names))} if 2 * len(missing) <= len(names) else {}
    raise RequestError(
        f"{quote_input(table.path)}: {len(missing):,} of the {len(names):,} images of the first {len(rows):,} rows "
        f"{'is' if len(missing) == 1 else 'are'} not there: "
        f"{_describe_nearest(missing[0], roots[-1])}",
        [
            *(() if has_folders else _join(table, columns, names, roots[-1])),
            *([Reading("all rows but those without an image", few)] if few else []),
        ],
        code="missing_images",
    )


def _describe_nearest(name: str, root: str) -> str:
    """Returns the first folder or file of a path that is not there, with the name that is most like it."""
    folder, *parts = root, *name.replace("\\", "/").split("/")
    while len(parts) > 1 and storage.is_folder(storage.join(folder, parts[0])):
        folder = storage.join(folder, parts.pop(0))
    part = parts[0]
    if storage.is_file(storage.join(folder, part)):
        # As images\\1.jpg, or 1.jpg/.
        return f"{shorten(folder)} has {shorten(part)}, but not as {shorten(name)}"
    if storage.is_folder(storage.join(folder, part)):
        return f"{shorten(storage.join(folder, part))} is a folder"
    inside = [*storage.list_folders(folder), *(file.path for file in storage.list_files(storage.join(folder, "*")))]
    near = find_near(part, {storage.basename(path) for path in inside})
    return f"{shorten(folder)} has no {shorten(part)}{f', but {shorten(near)}' if near else ''}"


def _refuse_missing_remote(table: Table, images: Iterator[str], roots: Sequence[str]) -> None:
    names = list(itertools.islice(images, 1))
    if any(map(storage.is_web, roots)) or not _are_missing(names, roots):
        return
    names += itertools.islice(images, _MOST_ROWS - 1)
    some = names[:: max(1, len(names) // _MOST_ASKED)]
    if all(map_in_threads(lambda name: _are_missing([name], roots), some, threads=_MOST_ASKED)):
        raise _refusal(table.path, names, roots, asked=len(some))


def refuse_missing_names(
    path: str, names: Sequence[str], roots: Sequence[str], *, images: Sequence[str] | None = None
) -> None:
    """Checks whether none of an annotation file's first images exists, but all do at similar paths, or no folder does.

    Args:
      path: path of the file.
      names: names of the first images.
      roots: folders to search for the images.
      images: folders of the images, if these are masks.

    Raises:
      RequestError: all images exist at similar paths, or the folder of the images does not exist; suggests the fix.
    """
    if any(map(storage.has_scheme, (path, *roots))) or not _are_missing(names, roots):
        return
    setting = "image_root" if images is None else "mask_root"

    def find_readings() -> Iterator[Reading | str]:
        for changed, folder in _find_changes(names, roots[-1], storage.dirname(path)):
            # Leading folders of another machine are dropped.
            is_end = images is None and names[0].replace("\\", "/").endswith(f"/{changed}")
            if folder not in (images or ()) and (changed == names[0] or is_end):
                yield Reading(f"the images in {folder}", {setting: folder})
            elif images is None:
                yield _describe_change(changed, names[0], folder, roots[-1])

    found = find_readings()
    first = next(found, None)
    if isinstance(first, Reading):
        raise _refusal(path, names, roots, *_with_rivals(first, found, path, setting))
    if first is not None:
        raise _refusal(path, names, roots, first)
    if images is None and not storage.is_folder(roots[-1]):
        raise RequestError(f"`image_root={printable(roots[-1])}` {does_not_exist(roots[-1])}", code="not_found")


def _are_missing(names: Sequence[str], roots: Sequence[str]) -> bool:
    """Whether all names are local paths and none of them exists in any of the folders; False without names."""
    if not names or any(map(storage.has_scheme, names)):
        return False
    return not any(_may_exist(storage.join(root, name)) for root in roots for name in names)


def _may_exist(path: str) -> bool:
    try:
        return storage.is_file(as_named(path))
    except OSError:  # Listing the image reports the error.
        return True


def _refusal(
    path: str,
    names: Sequence[str],
    roots: Sequence[str],
    found: Reading | str = "",
    *more: Reading | str,
    asked: int = 0,
) -> RequestError:
    """Returns the refusal, with readings or with advice."""
    advice = found or "`image_root` names the folder that the paths of the images are relative to"
    if not found and storage.is_folder(roots[-1]) and not storage.has_scheme(roots[-1]):
        advice = f"{_describe_nearest(names[0], roots[-1])}; {advice}"
    return RequestError(
        f"{quote_input(path)}: none of {asked or f'the first {len(names):,}'} images is there, such as "
        f"{shorten(storage.join(roots[-1], names[0]))}{f'; {advice}' if isinstance(advice, str) else ''}",
        [one for one in (found, *more) if isinstance(one, Reading)],
        code="missing_images",
    )


def _describe_change(changed: str, name: str, folder: str, root: str) -> str:
    """Returns the advice to change the paths in a file, which no setting can do."""
    there = storage.join(folder, changed).removeprefix(storage.join(root, ""))
    return f"the image {shorten(name)} is at {shorten(there)}; correct the paths in the file"


def first_images(table: Table, columns: Columns) -> Iterator[str]:
    """Yields the paths of the first image of each row, in the order of the rows."""
    pattern = _pattern_of(columns)
    needed = pattern_columns(pattern) if columns.has_images else []
    is_list = next(iter(columns.images), None) in columns.lists
    for row in table.rows(needed) if needed else ():
        if not isinstance(row, InvalidRow):
            with contextlib.suppress(SampleError):
                if is_list:
                    yield from read_paths(row, needed[0])[:1]
                else:
                    yield fill_pattern(pattern, {name: read_text(row, name) for name in needed})


def _pattern_of(columns: Columns) -> str:
    """Returns the pattern of the first image of a row."""
    return next(iter(columns.patterns.values()), f"{{{columns.image}}}")


def _choose(table: Table, columns: Columns, found: Reading | str | None) -> list[Reading | str]:
    """Returns a reading for the stems in the image column, or those for other columns that name images better."""
    is_path = isinstance(found, Reading) and "image_path" not in found.settings
    if is_path or len(columns.images or columns.patterns) != 1:
        return [] if found is None else [found]
    cells, _ = read_cells(table)
    image = [columns.image] if columns.image else []
    others = {name: some for name, some in cells.items() if name in image or name not in columns.needed}
    named: list[Reading | str] = []
    for name, path in find_stems(table, others, known=image if isinstance(found, Reading) else ()):
        if found and name in image:
            named.append(found)
        elif "image_path" in path:
            path = {**path, "image_column": None, "image_root": None}
            named.append(Reading(f"the images that are named by {name!r}", path))
    return named or ([found] if found else [])


def _suggestions(table: Table, columns: Columns, names: Sequence[str], root: str) -> Iterator[Reading | str]:
    written = _pattern_of(columns)
    # With one image per row, the path can be given as `image_path`.
    is_one = len(columns.images or columns.patterns) == 1
    for path in _add_folders(table, written, root) if is_one else ():
        yield Reading(f"the images at {path}", {"image_path": path, "image_column": None})
    advice = ""
    for changed, folder in _find_changes(names, root, storage.dirname(table.path)):
        where = {"image_root": folder} if folder != root else {}
        extension = changed.removeprefix(names[0])
        if not extension:
            yield Reading(f"the images in {folder}", where)
        elif is_one and extension in _EXTENSIONS:
            settings = {"image_path": written + extension, "image_column": None, **where}
            yield Reading(f"the images with {extension}", settings)
        else:
            advice = advice or _describe_change(changed, names[0], folder, root)
    if advice:
        yield advice


def _with_rivals(
    first: Reading, others: Iterator[Reading | str], path: str, setting: str = "image_root"
) -> list[Reading]:
    """Returns a reading, and those by other folders with images of the same names, such as cropped ones.

    Leaves out folders of masks and of another split. The folder that shares most words with the name of the file comes
    first.
    """
    split = split_in_name(stem_of(path))
    alike = {first.settings[setting]: first}
    for one in itertools.islice(others, _MOST_RIVALS):
        place = one.settings.get(setting, "") if isinstance(one, Reading) else ""
        is_mask = any(map(is_annotation, place.split("/")))
        if isinstance(one, Reading) and one.settings.keys() == first.settings.keys() and not is_mask:
            alike.setdefault(place, one)
    if len(alike) == 1:
        return [first]
    own = [one for one in alike if not is_of_another_split(one.removeprefix(storage.dirname(path)), split)]
    ordered = sorted(own or alike, key=lambda place: -likeness(stem_of(path), place)[0])
    return [dataclasses.replace(alike[place], meaning=f"the images in {place}") for place in ordered]


def _join(
    table: Table, columns: Columns, names: Sequence[str], root: str, *, beside: str | None = None
) -> Iterator[Reading]:
    """Yields readings that join a table with the images that have the names in its paths, in folders or archives."""
    keys, beside = pattern_columns(_pattern_of(columns)), beside or storage.dirname(table.path)
    if len(keys) != 1 or len(columns.images) > 1 or columns.boxes or columns.objects:
        return
    places, _ = list_places(beside)
    inputs = [{"input": beside, "join": [table.path]}] if places else join_archives(table)
    inputs = [{"input": root, "join": [table.path]}] if storage.is_file(root) else inputs
    shown = {of: name for name, of in name_joined(table, table.columns).items()}
    labels = {"label_columns": ",".join(map(shown.__getitem__, columns.labels))} if columns.labels else {}
    labels |= {"label_column": shown[columns.label]} if columns.label else {}
    plain = dict.fromkeys(("image_column", "image_path", "image_root", "source", "allow_outside_root"))
    if not places or all(stem_of(name.replace("\\", "/")) in places for name in names):
        for one in inputs:
            yield Reading(f"the images in {show_images(one)}", {**one, "join_key": keys, **labels, **plain})


def _add_folders(table: Table, written: str, root: str) -> Iterator[str]:
    """Yields patterns in which another column says the folder of the images."""
    of_images = pattern_columns(written)
    others = [name for name in table.columns if name not in (*of_images, *table.embedded) and not set("{}") & set(name)]
    cells = first_cells(table, [*of_images, *others], rows=_ROWS)
    rows = len(next(iter(cells.values()), ()))
    for name in others:
        words = [{one: str(cells[one][row]) for one in (name, *of_images)} for row in range(rows)]
        for pattern in (posixpath.join(folder, f"{{{name}}}/{written}") for folder in FOLDERS):
            if words and all(
                one[name] and storage.is_file(as_named(storage.join(root, fill_pattern(pattern, one)))) for one in words
            ):
                yield pattern


def _find_changes(names: Sequence[str], root: str, beside: str) -> Iterator[tuple[str, str]]:
    """Yields the first path as changes make it that turn all paths into existing files, and the folder of these files.

    The simplest changes come first.
    """
    path = names[0].replace("\\", "/")
    parts = path.split("/")
    prefixes = ["".join(f"{part}/" for part in parts[:count]) for count in range(min(len(parts), _MOST_FOLDERS))]
    inside = [*_find_folders(path, beside)]
    # Images of the same names beside the folder of the table are of another dataset, unless it has their masks.
    is_inside = any(not any(map(is_annotation, folder[len(beside) :].split("/"))) for folder, _ in inside)
    files = storage.list_files(storage.join(beside, "*"))
    is_inside = is_inside or any(source_of_file(file.path) in ("tar", "zip") for file in files)
    bases = dict.fromkeys((root, beside, *(() if is_inside else (storage.dirname(beside),))))
    usual = (
        (posixpath.join(base, folder).rstrip("/"), prefix)
        for prefix in prefixes
        for base in bases
        for folder in FOLDERS
    )
    # Last, looks for the first image everywhere below the table's folder, or else below the folder above.
    near = storage.dirname(beside) if beside.count("/") > _LEAST_DEPTH else beside
    for where, prefix in itertools.chain(usual, inside, () if is_inside else _find_folders(path, near)):
        for changed in _variants([name.replace("\\", "/").removeprefix(prefix) for name in names]):
            if all(storage.is_file(as_named(storage.join(where, name))) for name in changed):
                yield changed[0], where


def _find_folders(path: str, root: str) -> Iterator[tuple[str, str]]:
    """Yields the folders below a root that have a file of an image's name, and the start of the path to remove."""
    stem = normalize(posixpath.splitext(posixpath.basename(path))[0].lower())
    folders = path.split("/")[:-1]
    for entry in storage.list_files(root, limit=_MOST_FILES, literal=True):
        folder, _, name = entry.path.rpartition("/")
        if normalize(posixpath.splitext(name)[0].lower()) != stem:
            continue
        for count in range(len(folders) + 1):
            inner = "".join(f"/{one}" for one in folders[count:])
            if folder.endswith(inner):
                yield folder.removesuffix(inner), "".join(f"{one}/" for one in folders[:count])


def _variants(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields paths as they are, with another extension behind or in place of theirs, and in lower or upper case."""
    yield names
    for extension in _EXTENSIONS:
        yield [name + extension for name in names]
        if "." in posixpath.basename(names[0]):
            yield [posixpath.splitext(name)[0] + extension for name in names]
    yield [name.lower() for name in names]
    yield [name.upper() for name in names]
