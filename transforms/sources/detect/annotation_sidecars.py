"""Annotations beside images: what they look like, and the settings that read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import Suggestion
from beam_tfrecords.transforms.sources.detect.interpretation import join
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.detect.trial import is_usable
from beam_tfrecords.transforms.sources.source_spec import SourceSpec

_COCO = re.compile(r"(?:^|[_.])(?:instances|captions|keypoints|annotations?|coco)[_.].*json$", re.IGNORECASE)
# Files of COCO's form without boxes of their own, or with those of `instances` once more.
_NOT_OBJECTS = re.compile(r"captions|keypoints|panoptic|stuff", re.IGNORECASE)
_DATA_FILES = ("data.yaml", "data.yml", "dataset.yaml")
# More folders of images are not named one by one.
_MOST_FOLDERS = 4


def describe_annotations(tree: FolderTree) -> str:
    """What the files beside the images look like: a dataset of COCO, YOLO or Pascal VOC; "" if like none of them."""
    kinds: dict[str, str] = {}
    for path, folder in tree.walk():
        others = {**folder.others}
        for name in tree.others(path):
            if _COCO.search(name):
                kinds.setdefault("COCO", join(path, name))
            if name.lower() in _DATA_FILES:
                kinds.setdefault("YOLO", join(path, name))
        part = path.rpartition("/")[2].lower()
        if others.get(".xml") and (part.startswith("annotation") or part == "xmls" or folder.images):
            kinds.setdefault("Pascal VOC", f"{path}/*.xml")
        if (others.get(".txt", 0) > 1 and part == "labels") or (others.get(".txt") and "/labels/" in f"/{path}/"):
            stems = {one.rpartition(".")[0] for one in tree.others(path)}
            images = {name.rpartition(".")[0] for _, one in tree.walk() for _, name in one.names}
            if stems & images:
                kinds.setdefault("YOLO", f"{path}/*.txt")
    return ", ".join(f"annotations of {kind} ({example})" for kind, example in kinds.items())


def find_annotations(tree: FolderTree, spec: SourceSpec, root: str | None) -> Iterator[Suggestion]:
    """The suggestions that read annotated objects, instead of the folders.

    Args:
      tree: the folders.
      spec: the request.
      root: path of the folder that they are in; None if it is not one.
    """
    if root is None or spec.include or spec.exclude or spec.class_names or spec.split_folders or spec.label_pattern:
        return
    yield from (one for one in _find_annotations(tree, root) if is_usable(spec, one.settings))


def _find_annotations(tree: FolderTree, root: str) -> Iterator[Suggestion]:
    """The requests that read what looks like annotations."""
    others = [(path, name) for path, _ in tree.walk() for name in tree.others(path)]
    files = [(path, name) for path, name in others if _COCO.search(name) and not _NOT_OBJECTS.search(name)]
    if files:
        # Their images are beside them, or in folders of their own.
        folders = [] if all(tree.images(path) for path, _ in files) else [one for one, it in tree.walk() if it.images]
        roots = [storage.join(root, one) if one else root for one in folders]
        settings: dict[str, Any] = {"input": [_below(root, path, name) for path, name in files]}
        if roots:
            settings["image_root"] = roots if len(roots) <= _MOST_FOLDERS else [root]
        yield _objects("COCO", settings)
    for path, name in others:
        if name.lower() in _DATA_FILES:
            yield _objects("YOLO", {"input": _below(root, path, name)})
    bases = find_voc(tree)
    if bases:
        yield _objects("Pascal VOC", _read_voc(root, bases))
    with_masks = [base for base in bases if tree.images(join(base, "SegmentationClass"))]
    if with_masks:
        settings = {**_read_voc(root, with_masks), "layout": "segmentation"}
        yield Suggestion("the images with the masks of Pascal VOC", settings)


def find_voc(tree: FolderTree) -> list[str]:
    """The folders with a dataset of Pascal VOC: of each year, where there are several."""
    images = [path for path, folder in tree.walk() if folder.images and path.rpartition("/")[2] == "JPEGImages"]
    bases = [path.rpartition("/")[0] for path in images]
    others = {base: tree.folders.get(join(base, "Annotations")) for base in bases}
    return [base for base, folder in others.items() if folder and ".xml" in folder.others]


def _read_voc(root: str, bases: Sequence[str]) -> dict[str, Any]:
    paths = [storage.join(root, base) if base else root for base in bases]
    return {"input": paths if len(paths) > 1 else paths[0], "source": "voc"}


def _objects(kind: str, settings: Mapping[str, Any]) -> Suggestion:
    return Suggestion(f"the images with the objects of {kind}", {**settings, "layout": "detection"})


def _below(root: str, path: str, name: str) -> str:
    return storage.join(root, join(path, name))
