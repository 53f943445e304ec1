"""Detects annotation files next to images, and suggests the settings that read them."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading
from beam_tfrecords.transforms.sources.class_files import YOLO_LIST
from beam_tfrecords.transforms.sources.detect.interpretation import Request, join
from beam_tfrecords.transforms.sources.detect.names import is_mask_folder, match_names, split_in_name
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.meaning.companions import find_files_of_images
from beam_tfrecords.transforms.sources.meaning.row_sidecars import group_by_split
from beam_tfrecords.transforms.sources.names import is_image_name, stem_of

COCO, YOLO, VOC = "COCO", "YOLO", "Pascal VOC"
# Extensions of YOLO's data files.
_DATA_EXTENSIONS = (".yaml", ".yml", ".data")
_DATA_FILE = re.compile(rb"^(?:train|val|valid|test)\s*[:=]", re.MULTILINE)
# Words in quotes, or in the tags of XML.
_QUOTED = re.compile(r'(?<=["\'>])[^"\'<>]+')
# Lists of captions have images with other keys.
_OF_COCO = re.compile(rb'"(?:file_name|coco_url|annotations)"\s*:')
_OBJECT = re.compile(rb'"(?:bbox|segmentation|keypoints)"')
_NAMES = re.compile(rb"^names\s*[:=]", re.MULTILINE)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:]')
_SNIFFED_BYTES = 64 << 10
_COCO = re.compile(r"(?:^|[_.])(?:instances|captions|keypoints|annotations?|coco)[_.].*json$", re.IGNORECASE)
# Files in COCO's format without boxes, or with the boxes of `instances` again.
_NOT_OBJECTS = re.compile(r"captions|keypoints|panoptic|stuff", re.IGNORECASE)
_DATA_FILES = ("data.yaml", "data.yml", "dataset.yaml")
# Documents that only a program of annotations writes; tables and texts are of any.
_DOCUMENTS = (".json", ".xml", ".pts", ".gt")
# With more files of one extension, each file annotates a single image.
_MOST_FILES = 16
_MOST_EXPORTS = 3
# Number of files to inspect; further folders are likely to have files of the same tool.
_MOST_LOOKED_INTO = 4
# Most image folders to list in a reading.
_MOST_FOLDERS = 24


def describe_annotations(tree: FolderTree, roots: Sequence[str]) -> str:
    """Describes annotations in the formats of COCO, YOLO or Pascal VOC next to the images; "" if there are none.

    Args:
      tree: the folders.
      roots: paths of the folders that have this tree; if empty, names decide.
    """
    found = [f"annotations of {kind} ({example})" for kind, example in find_formats(tree, roots).items()]
    return ", ".join([*found, *describe_documents(tree, roots)])


def find_formats(tree: FolderTree, roots: Sequence[str]) -> dict[str, str]:
    """Returns format -> path of such a file next to the images; for the arguments, see `describe_annotations`."""
    kinds: dict[str, str] = {}
    for path, name in _coco_files(tree, roots):
        kinds.setdefault(COCO, join(path, name))
    for path, name in _data_files(tree, roots):
        kinds.setdefault(YOLO, join(path, name))
    for path, folder in tree.walk():
        others = {**folder.others}
        part = path.rpartition("/")[2].lower()
        may_be_voc = part.startswith("annotation") or part == "xmls" or folder.images
        if VOC not in kinds and others.get(".xml") and may_be_voc:
            names = [one for one in tree.others(path) if one.lower().endswith(".xml")][:_MOST_LOOKED_INTO]
            if not roots or any(b"<annotation" in _read_start(_below(roots, path, one)) for one in names):
                kinds[VOC] = f"{path}/*.xml"
        in_labels = (others.get(".txt", 0) > 1 and part == "labels") or "/labels/" in f"/{path}/"
        if others.get(".txt") and (in_labels or (folder.images and roots)):
            stems = {one.rpartition(".")[0]: one for one in tree.others(path) if one.endswith(".txt")}
            images = {name.rpartition(".")[0] for _, one in tree.walk() for _, name in one.names}
            both = sorted(stems.keys() & images)
            some = [_read_start(_below(roots, path, stems[one])) for one in both[:_MOST_LOOKED_INTO]] if roots else []
            if (in_labels and both) or _hold_shares(some):
                kinds.setdefault(YOLO, f"{path}/*.txt")
    return kinds


def _hold_shares(texts: Sequence[bytes]) -> bool:
    """Whether one of some texts has boxes of YOLO."""
    # Most folders have no such texts.
    from beam_tfrecords.transforms.sources.annotated.yolo_labels import holds_shares

    return any(map(holds_shares, texts))


def describe_documents(tree: FolderTree, roots: Sequence[str]) -> list[str]:
    """Describes documents that a mapping of ours reads; for the arguments, see `describe_annotations`."""
    found = _find_mappings(tree, roots)
    return [f"annotations ({shown}), which `mapping={name}` may read" for name, shown in found.items()]


def _find_mappings(tree: FolderTree, roots: Sequence[str]) -> dict[str, str]:
    """Returns mapping of ours -> glob of documents in the folders that it fits.

    Files in COCO's format are often large, and are found by their first bytes.
    """
    found: dict[str, str] = {}
    files = (
        (path, name, extension)
        for path, _ in tree.walk()
        for extension in _DOCUMENTS
        if (name := next((one for one in tree.others(path) if one.lower().endswith(extension)), None))
    )
    for path, name, extension in itertools.islice(files, _MOST_LOOKED_INTO) if roots else ():
        # Most folders have no documents.
        from beam_tfrecords.transforms.sources.annotated.recognition import fitting_mappings

        whole = _below(roots, path, name)
        for mapping in () if _holds_coco(whole) else fitting_mappings(storage.stat(whole)):
            found.setdefault(mapping, join(path, f"*{extension}"))
    return found


def are_annotated(tree: FolderTree, request: Request) -> bool:
    """Whether some of the annotations next to images are of these images, rather than of others.

    Without the root folder, whose files would show that, the annotations count if their names say what they are.
    """
    root = request.root
    if root is None:
        return describe_annotations(tree, request.folders) != ""
    if request.names_paths:
        return False
    found = find_formats(tree, [root]) | _find_mappings(tree, [root])
    if YOLO in found:
        # A data file says nothing of the images.
        found[YOLO] = next((path for path in find_files_of_images(tree) if path.endswith(".txt")), "")
    paths = [
        join(folder, name)
        for folder, _, pattern in (path.rpartition("/") for path in found.values())
        for name in fnmatch.filter(tree.others(folder), pattern)[:_MOST_LOOKED_INTO]
    ]
    return any(_annotates(tree, root, path) for path in paths)


def _annotates(tree: FolderTree, root: str, path: str) -> bool:
    """Whether a document has the name of an image, or names images where it begins or ends."""
    if stem_of(path) in tree.image_stems:
        return True
    text = _read_ends(storage.join(root, path)).decode(errors="replace").replace("\\", "/")
    names = [one for one in _QUOTED.findall(text) if is_image_name(one)]
    if not tree.image_names.isdisjoint(map(posixpath.basename, names)):
        return True
    # Only some names of a large folder are known, and asking a store for each of them would take minutes.
    places = [] if storage.has_scheme(root) else ["", *(folder for folder, held in tree.walk() if held.images)]
    return any(
        storage.is_file(storage.join(root, join(folder, one)))
        for name in names[:_MOST_LOOKED_INTO]
        for one in {name, posixpath.basename(name)}
        for folder in places[:_MOST_FOLDERS]
    )


def find_annotations(tree: FolderTree, request: Request) -> Iterator[Reading]:
    """Yields readings of annotated objects instead of folder labels.

    Args:
      tree: the folders.
      request: the request, which names their root folder.
    """
    root = request.root
    if root is None or request.names_paths or request.spec.label_pattern:
        return
    every = _coco_files(tree, [root])
    files = [(path, name) for path, name in every if not _NOT_OBJECTS.search(name)]
    # As image_info_test2017.json, which names images without annotations.
    with_objects = [one for one in files if _OBJECT.search(_read_ends(_below([root], *one)))]
    files = with_objects or files
    if len(files) > len({name for _, name in files}) == 1 and not any(split_in_name(path) for path, _ in files):
        # An older export of the same annotations, or that of another annotator.
        for path, name in files[:_MOST_EXPORTS]:
            read = _read_coco(tree, root, [(path, name)])
            yield from (dataclasses.replace(one, meaning=f"{one.meaning} in {join(path, name)}") for one in read)
    if files:
        yield from _read_coco(tree, root, files)
    fold, *others = group_by_split([join(*one) for one in files]) or [[]]
    if not others and 1 < len(fold) < len(files):
        # The same images may be split in several ways, which numbers tell apart.
        for one in _read_coco(tree, root, [one for one in files if join(*one) in fold]):
            yield dataclasses.replace(one, meaning=f"{one.meaning} in {', '.join(map(posixpath.basename, fold))}")
    kinds = {"panoptic masks": "segmentation"}
    if not files:
        # Otherwise the other files have the same boxes.
        kinds["keypoints"] = "detection_keypoints"
    for what, layout in kinds.items():
        if some := [(path, name) for path, name in every if what.split()[0] in name.lower()]:
            for one in _read_coco(tree, root, some):
                yield Reading(f"the images with the {what} of COCO", {**one.settings, "layout": layout})
    data_files = _data_files(tree, [root])
    for path, name in data_files:
        yield _objects(YOLO, {"input": _below([root], path, name)})
    has_names = any(YOLO_LIST.fullmatch(name) for path, _ in tree.walk() for name in tree.others(path))
    if YOLO in find_formats(tree, [root]) and (has_names or not data_files):
        yield _objects(YOLO, {"input": root, "source": "yolo"})
    for name in _find_mappings(tree, [root]):
        from beam_tfrecords.transforms.sources.annotated.recognition import suggest_mapping

        yield suggest_mapping(name)
    bases = find_voc(tree)
    document = next(iter(tree.find_others(lambda name: name.lower().endswith(".xml"))), None)
    if not bases and document and b"<annotation" in _read_start(storage.join(root, document)):
        yield _objects(VOC, {"input": root, "source": "voc"})
    if bases:
        yield _objects(VOC, _read_voc(root, bases))
    with_masks = [base for base in bases if tree.images(join(base, "SegmentationClass"))]
    if with_masks:
        settings = {**_read_voc(root, with_masks), "layout": "segmentation"}
        yield Reading("the images with the masks of Pascal VOC", settings)


def _read_coco(tree: FolderTree, root: str, files: Sequence[tuple[str, str]]) -> Iterator[Reading]:
    """Suggests reading COCO files with images next to them or in other folders."""
    settings: dict[str, Any] = {"input": [_below([root], path, name) for path, name in files]}
    what, layout = "classes", {}
    for path in settings["input"]:
        text = _read_ends(path)
        if _OBJECT.search(text):
            what, layout = "objects", {"layout": "detection"}
            break
        if b'"caption"' in text:
            what, layout = "captions", {"layout": "captions"}
    # Panoptic images are in a folder with the name of their file.
    masks = {name.removesuffix(".json") for _, name in files if "panoptic" in name.lower()}
    ends = [(one, one.rpartition("/")[2]) for one, folder in tree.walk() if folder.images]
    folders = [storage.join(root, one) for one, end in ends if end not in masks and not is_mask_folder(end)]
    if len(folders) == len(files) > 1:
        # As many folders as files are paired in their order.
        folders = _pair_folders([name for _, name in files], folders)
    rooted = 0 < len(folders) <= _MOST_FOLDERS and not all(tree.images(path) for path, _ in files)
    places: list[dict[str, Any]] = [{}, *([{"image_root": folders}] if rooted else [])]
    # Splits may repeat the names of images, and a single folder holds those of one split only.
    for place in reversed(places) if len(files) > 1 < len(folders) else places:
        yield Reading(f"the images with the {what} of COCO", {**settings, **place, **layout})


def _pair_folders(names: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Returns the folder for each file by their splits, or else by words of their names; [] if these do not tell."""
    splits = [split_in_name(storage.basename(folder)) for folder in folders]
    if None not in splits and {*map(split_in_name, map(stem_of, names))} == {*splits}:
        return [*folders]
    return [folders[place] for place in match_names([*map(stem_of, names)], [*map(storage.basename, folders)])]


def _coco_files(tree: FolderTree, roots: Sequence[str]) -> list[tuple[str, str]]:
    """Returns folder and name of files that look like COCO's, judging by their first bytes if `roots` are given."""
    found = _others(tree, ".json")
    if roots:
        return [(path, name) for path, name in found if _holds_coco(_below(roots, path, name))]
    return [(path, name) for path, name in found if _COCO.search(name)]


def _data_files(tree: FolderTree, roots: Sequence[str]) -> list[tuple[str, str]]:
    """Returns folder and name of files that look like YOLO's data files."""
    found = [one for extension in _DATA_EXTENSIONS for one in _others(tree, extension)]
    return [
        (path, name)
        for path, name in found
        if (_holds_data(_below(roots, path, name)) if roots else name.lower() in _DATA_FILES)
    ]


def _others(tree: FolderTree, extension: str) -> list[tuple[str, str]]:
    """Returns folder and name of files with an extension, in folders with few such files."""
    return [
        (path, name)
        for path, folder in tree.walk()
        if {**folder.others}.get(extension, 0) <= _MOST_FILES
        for name in tree.others(path)
        if name.lower().endswith(extension)
    ]


def find_voc(tree: FolderTree) -> list[str]:
    """Returns the folders with a Pascal VOC dataset; there may be one per year."""
    images = [path for path, folder in tree.walk() if folder.images and path.rpartition("/")[2] == "JPEGImages"]
    bases = [path.rpartition("/")[0] for path in images]
    others = {base: tree.folders.get(join(base, "Annotations")) for base in bases}
    return [base for base, folder in others.items() if folder and ".xml" in folder.others]


def _read_voc(root: str, bases: Sequence[str]) -> dict[str, Any]:
    paths = [storage.join(root, base) if base else root for base in bases]
    return {"input": paths if len(paths) > 1 else paths[0], "source": "voc"}


def _objects(kind: str, settings: Mapping[str, Any]) -> Reading:
    return Reading(f"the images with the objects of {kind}", {**settings, "layout": "detection"})


def _below(roots: Sequence[str], path: str, name: str) -> str:
    """Returns the path of a file in the first root that has it."""
    paths = [storage.join(root, join(path, name)) for root in roots]
    return next(filter(storage.is_file, paths), paths[0]) if len(paths) > 1 else paths[0]


def _holds_coco(path: str) -> bool:
    """Whether a JSON file is an object whose `annotations`, or `images` with COCO's names, are objects, or empty."""
    depth, names = 0, (b'"images"', b'"annotations"')
    last: tuple[bytes, ...] = (b"", b"", b"")
    for token in (match[0] for match in _TOKEN.finditer(_read_start(path))):
        if depth == 2 and last[0] in names and last[1:] == (b":", b"[") and token in (b"{", b"]"):
            return last[0] == names[1] or token == b"]" or _OF_COCO.search(_read_ends(path)) is not None
        last = (*last[1:], token)
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token, 0)
    return False


def _holds_data(path: str) -> bool:
    """Whether a file is a data file of YOLO."""
    start = _read_start(path)
    return bool(_DATA_FILE.search(start) and _NAMES.search(start))


def _read_start(path: str) -> bytes:
    """Returns the first bytes of a file."""
    return storage.read_range(path, 0, min(storage.stat(path).size, _SNIFFED_BYTES))


def _read_ends(path: str) -> bytes:
    """Returns the first bytes of a file, and those of its last bytes that are not among these."""
    start, size = _read_start(path), storage.stat(path).size
    left = min(size - len(start), _SNIFFED_BYTES)
    return start + storage.read_range(path, size - left, left) if left else start
