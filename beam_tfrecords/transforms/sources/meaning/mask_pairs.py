"""Finds masks among the images of an input, and the settings that read them."""

from __future__ import annotations

import glob
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.detect.mask_names import find_suffixes
from beam_tfrecords.transforms.sources.detect.names import (
    is_annotation,
    is_mask_folder,
    names_annotations,
    plain_path,
    plain_stem,
    split_in_name,
)
from beam_tfrecords.transforms.sources.detect.tree import Folder, FolderTree
from beam_tfrecords.transforms.sources.meaning.pixels_alike import JPEG

_MOST_FOLDERS = 4


def find_masks(tree: FolderTree, folders: Sequence[str], root: str) -> dict[str, Any] | None:
    """Returns the settings that pair images in folders such as `masks` with other images; None if no settings do.

    Args:
      tree: folders of the input.
      folders: paths of the folders that look like masks.
      root: path of the input.
    """
    masks = [path for path, folder in tree.walk() if folder.images and _is_below(path, folders)]
    images = [path for path, folder in tree.walk() if folder.images and not _is_below(path, folders)]
    # Of other names, such as those of depth maps, pixels have said that they look like masks.
    if not masks or any(_names_no_masks(path.rpartition("/")[2]) for path in folders):
        return None
    base, mask_base = _common(images), _common(masks)
    if len(images) == 1 < len(masks) and not _is_below(base, [mask_base]):
        return _find_class_masks(tree, base, mask_base, masks, root)
    if base == mask_base or _is_below(base, [mask_base]) or _is_below(mask_base, [base]):
        # Images and masks share one tree, with folders next to each other at several levels.
        base = mask_base = ""
    beside = {plain_path(path[len(mask_base) :].strip("/")) for path in masks}
    places = {plain_path(path[len(base) :].strip("/")) for path in images}
    # Of masks and pred_masks, only one belongs to the images.
    if len(beside) < len(masks) or not (beside <= places or beside.isdisjoint(places)):
        return None
    paired = [path for path in images if plain_path(path[len(base) :].strip("/")) in beside]
    alone = [path for path in images if path not in paired]
    settings: dict[str, Any] = {}
    if len(paired) == len(masks) == 1:
        base, mask_base, alone = paired[0], masks[0], []
    if alone:
        if len(alone) > _MOST_FOLDERS or base or any(_is_below(path, alone) for path in (*paired, "")):
            return None
        settings["exclude"] = [f"{glob.escape(path)}/**" for path in alone]
    are_all = all(_knows_all(tree, path) for path in (*paired, *masks))
    names = _stems(tree.names(paired)), _stems(_numbered(tree.names(masks)))
    suffixes = find_suffixes(*names, are_all=are_all)
    if suffixes is None:
        plain, of_masks = ({*map(plain_stem, some)} for some in names)
        shared = plain & of_masks
        # Only some of the images may have masks.
        is_paired = 2 * len(shared) >= min(len(plain), len(of_masks)) or not are_all
        suffixes = {} if shared and is_paired else None
    if not paired or suffixes is None:
        return None
    if base:
        settings["input"] = storage.join(root, base)
    return {**settings, "mask_root": storage.join(root, mask_base) if mask_base else root, **suffixes}


def _find_class_masks(
    tree: FolderTree, images: str, mask_base: str, masks: Sequence[str], root: str
) -> dict[str, Any] | None:
    """Returns the settings that read a folder of masks for each class; None if names of masks differ."""
    names = {*_stems(tree.names([images]))}
    classes = [path[len(mask_base) :].strip("/") for path in masks]
    are_alone = any(names.isdisjoint(_stems(_numbered(tree.names([path])))) for path in masks)
    # In nested folders, one class may have several folders.
    if are_alone or any(not name or "/" in name or "," in name or split_in_name(name) for name in classes):
        return None
    return {
        "input": storage.join(root, images),
        "mask_root": storage.join(root, mask_base),
        "mask_classes": ",".join(f"{name}={name}/" for name in classes),
    }


def find_suffixed_masks(tree: FolderTree, ending: str) -> dict[str, Any] | None:
    """Returns the settings that pair images with a name suffix with images without it; None if they are not masks.

    Args:
      tree: folders of the input.
      ending: name suffix, such as `_mask`.
    """
    alone = [path for path, folder in tree.walk() if folder.images and not _has_ending(folder, ending)]
    names = [name for path, folder in tree.walk() if path not in alone for _, name in folder.names]
    masks = [stem for stem in _stems(_numbered(names)) if stem.endswith(ending)]
    if not masks or "" in alone or len(alone) > _MOST_FOLDERS:
        return None
    # If an image has several masks, uses the first.
    more = re.compile(re.escape(ending) + r"[_-]\d+\.[^.]*$")
    globs = [f"*{ending}[_-]*"] if any(map(more.search, names)) else []
    globs += [f"{glob.escape(path)}/**" for path in alone]
    images = {posixpath.splitext(name)[0] for name in names if not more.search(name)} - {*masks}
    suffixes = find_suffixes(images, masks)
    if suffixes is None and all(_knows_all(tree, path) for path in tree.folders):
        return None
    # As _cp_masks.
    if suffixes is None or not suffixes.get("mask_suffix", "").endswith(ending):
        suffixes = {"mask_suffix": ending}
    return {**suffixes, **({"exclude": globs} if globs else {})}


def _has_ending(folder: Folder, ending: str) -> bool:
    return any(posixpath.splitext(name)[0].endswith(ending) for _, name in folder.names)


def _names_no_masks(name: str) -> bool:
    return (is_annotation(name) or names_annotations(name)) and not is_mask_folder(name)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(not folder or f"{path}/".startswith(f"{folder}/") for folder in folders)


def _common(paths: Sequence[str]) -> str:
    return posixpath.commonpath(paths) if paths else ""


def _stems(names: Iterable[str]) -> list[str]:
    return [posixpath.splitext(name)[0] for name in names]


def _numbered(names: Iterable[str]) -> Iterator[str]:
    """Yields the names of files that can store class numbers."""
    return (name for name in names if not JPEG.search(name))


def _knows_all(tree: FolderTree, path: str) -> bool:
    return tree.images(path) == len(tree.folders[path].names)
