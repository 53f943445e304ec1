"""The summary of the folders: bounded, and the same in whatever order and by however many processes it is made."""

from __future__ import annotations

import random
import tracemalloc

import msgpack
import pytest

from beam_tfrecords.transforms.sources.detect import tree as folder_tree
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary

KEYS = [
    *(f"train/{name}/{number}.jpg" for name in ("cat", "dog") for number in range(100)),
    *(f"masks/{number}.png" for number in range(30)),
    "1.jpg",
]
OTHERS = ["labels.csv", "annotations/1.xml", ".hidden.csv", "__MACOSX/x.csv", "README"]


def summary_of(keys, others=()):
    summary = FolderSummary()
    for key in keys:
        summary.add_image(key)
    for key in others:
        summary.add_other(key)
    return summary


def content(summary):
    """What a summary says, without the order of its heaps."""
    return {
        path: (folder.images, folder.others, sorted(folder.names), sorted(folder.other_names))
        for path, folder in summary.folders.items()
    }


def test_a_summary_counts_images_and_other_files_by_folder():
    tree = summary_of(KEYS, OTHERS).tree()
    assert tree.below("") == ["masks", "train"]
    assert tree.below("train") == ["cat", "dog"]
    assert (tree.images(""), tree.images("train"), tree.total("train"), tree.total()) == (1, 0, 200, 231)
    assert (tree.others(""), tree.others("annotations")) == (["labels.csv"], ["1.xml"])
    assert [path for path, _ in tree.walk("train")] == ["train/cat", "train/dog"]


@pytest.mark.parametrize("most", [20_000, 40])
def test_the_summary_does_not_depend_on_order_or_parts(monkeypatch, most):
    monkeypatch.setattr(folder_tree, "_MOST_FOLDERS", most)
    keys = [*KEYS, *(f"train/person{number % 200}/{number}.jpg" for number in range(1_000))]
    expected = content(summary_of(keys, OTHERS))
    assert len(expected) <= max(most, 41)
    for seed in range(5):
        shuffled = random.Random(seed).sample(keys, len(keys))
        assert content(summary_of(shuffled, OTHERS)) == expected
        joined = FolderSummary()
        for start in range(0, len(shuffled), 300):
            part = summary_of(shuffled[start : start + 300], OTHERS if not start else ())
            joined.merge(FolderSummary.unpack(msgpack.unpackb(msgpack.packb(part.pack()))))
        assert content(joined) == expected


def test_of_very_many_folders_the_same_names_are_kept_everywhere(monkeypatch):
    monkeypatch.setattr(folder_tree, "_MOST_FOLDERS", 500)
    tree = summary_of(f"{split}/person{n}/1.jpg" for n in range(5_000) for split in ("train", "val")).tree()
    assert tree.below("train") == tree.below("val")
    assert 50 <= len(tree.below("train")) <= 250


def test_the_memory_does_not_grow_with_the_number_of_folders(monkeypatch):
    monkeypatch.setattr(folder_tree, "_MOST_FOLDERS", 800)
    summary = FolderSummary()
    tracemalloc.start()
    for number in range(4_000):
        summary.add_image(f"train/person{number}/picture.jpg")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.6e6


def test_the_folders_of_archives_are_taken_together():
    summary = summary_of(["a.tar/cat/1.jpg", "x/b.tar/cat/2.jpg", "x/b.tar/dog/3.jpg", "x/b.tar/4.jpg"])
    tree = summary.joined({"a.tar/", "x/b.tar/"})
    assert (tree.below(""), tree.images(""), tree.images("cat")) == (["cat", "dog"], 1, 2)
