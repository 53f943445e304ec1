"""Kinds of wrong outcomes that are known: how the kind begins -> why it stands.

A kind is taken out with its fix; what is left is what the program still gets wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, str] = {
    "boxes": "four numbers without names are taken as corners where sizes fit too",
    "guessed": "boxes beside two columns of classes: one is their class and the other is named",
    "images": "two folders of images of the same things are taken as classes, such as left and right",
    "labels (label:list": "labels between spaces",
    "labels (label:text)": "a text of its own for each image, in a table without a header",
    "labels (label:vector": "lists of numbers as the labels of a function of the user",
    "silent names": "class names in an array or file of another name",
    "stopped, lost": "a COCO file with boxes and captions; a stated split column of true and false",
    "suggestion fails": "the command that mends paths, after one that adds a header",
    "suggestion refused missing_images": "a list of images in another folder, after a command",
    "suggestion refused no_class_folders": "an archive with tables leads to its folder, which asks",
    "suggestion refused unknown_class": "the rest of each line as the class, with given names",
    "suggestion, labels (label:list": "labels between spaces",
    "suggestion, labels (label:text": "a list of texts",
    "suggestion, offers": "a side of a box, or text, as the classes",
    "suggestion, publishes nothing": "a COCO file with boxes and captions; members of an archive in turn",
    "suggestion, silent": "images without labels from a folder or archive, whose other files are counted by kind",
    "suggestion, splits": "one-hot columns, one of which is called train",
    "suggestion, values": "lists of numbers in a text as texts",
}
