"""Kinds of wrong outcomes that are known: how the kind begins -> why it stands.

A kind is taken out with its fix; what is left is what the program still gets wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, str] = {
    "guessed": "boxes beside two columns of classes: one is their class and the other is named",
    "images": "two folders of images of the same things are taken as classes, such as left and right",
    "labels (label:list)": "seen once in 5,000 inputs",
    "labels (label:text)": "texts of fewer than six images, or of two words",
    "labels (label:vector_whole)": "seen once in 5,000 inputs",
    "silent names": "class names in an array or file of another name",
    "suggestion refused": "what follows a command that makes a file is not tried, unless it extracts an archive",
    "suggestion, boxes": "seen once in 5,000 inputs",
    "suggestion, labels (label:list)": "seen once in 5,000 inputs",
    "suggestion, labels (label:text)": "texts of few words offered as classes",
    "suggestion, offers": "a side of a box, or text, as the classes",
    "suggestion, publishes nothing": "a column that most rows lack",
    "suggestion, silent": "images without labels from a folder or archive, whose other files are counted by kind",
    "suggestion, splits": "one-hot columns, one of which is called train",
    "suggestion, values": "lists of numbers in a text as texts",
}
