"""Kinds of wrong outcomes that are known: how the kind begins -> why it stands."""

from __future__ import annotations

from collections.abc import Mapping

_ISSUE = "found by the first runs; to be fixed with issue 46"

KNOWN: Mapping[str, str] = {
    "boxes (unnamed)": "four numbers without names are taken as corners where sizes fit too",
    "guessed": "two columns of splits: the first is used and the other one named",
    "images": "two folders of images of the same things, below a folder that wraps them or with class folders' names",
    "labels (label:list)": _ISSUE,
    "labels (label:text)": "a text of its own for each image, in a table without a header",
    "labels (label:vector": _ISSUE,
    "silent keypoints": _ISSUE,
    "silent names": "class names in a .npy file of another name",
    "silent polygon": _ISSUE,
    "stopped, lost": "a COCO file with boxes and captions",
    "suggestion": _ISSUE,
}
