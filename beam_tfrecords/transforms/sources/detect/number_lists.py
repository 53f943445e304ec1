"""Finds lists of numbers next to images: one class per line, in the order of the image names.

An example is ILSVRC2012_validation_ground_truth.txt in ImageNet's development kit.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from beam_tfrecords import storage
from beam_tfrecords.errors import Suggestion
from beam_tfrecords.transforms.sources.detect.list_sidecars import list_lists, split_of_list
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.detect.trial import suppress_refusals
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.unsupported_formats import NUMBER_LIST

_MOST_LISTS = 24
_MOST_BYTES = 16 << 20
_START_BYTES = 64 << 10
# A program that joins the image names in a folder and the lines of a list to a table. Arguments: list, folder, table,
# and image extensions.
_JOIN = (
    "import csv, os, sys; p, f, t, *e = sys.argv[1:]; "
    "n = sorted(i for i in os.listdir(f) if i.lower().endswith(tuple(e)) and i[0] != '.'); l = open(p).read().split(); "
    "len(n) == len(l) or sys.exit(f'{len(n)} images, but {len(l)} numbers'); "
    "csv.writer(open(t, 'w', newline='')).writerows([('image', 'label'), *zip(n, l)])"
)


def find_number_lists(tree: FolderTree, root: str | None) -> Iterator[Suggestion]:
    """Yields suggestions that join a list of numbers with the same number of images, in name order.

    Args:
      tree: the folders.
      root: path of their root folder; None if the input is not a folder.
    """
    if root is None or storage.has_scheme(root):
        return
    for path, count in _count_numbers(tree, root).items():
        folders = [one for one, held in tree.walk() if held.images == count and not tree.below(one)]
        if len(folders) != 1 or not _are_in_order(tree.names(folders)):
            continue
        folder, source = storage.join(root, folders[0]).rstrip("/"), storage.join(root, path)
        table = f"{source}.csv"
        endings = sorted({posixpath.splitext(name)[1].lower() for name in tree.names(folders)})
        command = shlex.join(["python3", "-c", _JOIN, source, folder, table, *endings])
        # The command would overwrite an existing file.
        is_there = storage.exists(table)
        split = split_of_list(path) or split_in_name(posixpath.basename(folders[0]))
        yield Suggestion(
            f"the numbers of {printable(path)} as the classes of {count:,} images in the order of their names"
            + (", which are there already" if is_there else ""),
            {
                "source": None,
                "input": f"{split}={table}" if split else table,
                "label_column": "label",
                "image_root": folder,
            },
            [] if is_there else [command],
        )


def describe_number_lists(tree: FolderTree, root: str | None) -> str:
    """Describes lists of numbers whose length matches no folder, for a message; "" if there are none."""
    counts = {} if root is None else _count_numbers(tree, root)
    known = {held.images for _, held in tree.walk()}
    other = {path: count for path, count in counts.items() if count not in known}
    shown = (f"{printable(path)} has {count:,} numbers, and no folder as many images" for path, count in other.items())
    return f" ({'; '.join(shown)})" if other else ""


def _count_numbers(tree: FolderTree, root: str) -> dict[str, int]:
    """Returns the path of each list of numbers -> its length."""
    found = {}
    for path in list_lists(tree)[:_MOST_LISTS]:
        name, words = storage.join(root, path), list[bytes]()
        with suppress_refusals():
            size = storage.stat(name).size
            start = storage.read_range(name, 0, min(size, _START_BYTES))
            if size <= _MOST_BYTES and NUMBER_LIST.match(start):
                words = storage.read_range(name, 0, size).split()
        if words and all(map(bytes.isdigit, words)):
            found[path] = len(words)
    return found


def _are_in_order(names: list[str]) -> bool:
    """Whether sorting names as text and by number gives the same order."""
    return sorted(names) == sorted(names, key=lambda name: [*map(int, re.findall(r"\d+", name))])
