"""Kinds of wrong outcomes that are known: how the kind begins -> why it stands.

A kind is taken out with its fix; what is left is what the program still gets wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, str] = {
    "guessed": "boxes beside two columns of classes, of which one has a usual name: it is taken, and the other named",
    "labels (label:list)": "some words in cells of a large table are one class each, with a note",
    "suggestion, boxes": "boxes of a few rows that fit two formats, offered with the labels",
    "suggestion, labels (label:list)": "texts of two or three words offered as one class each, among others",
    "suggestion, lost": "the images of one split, whose table is offered alone",
    "suggestion, publishes nothing": "a dataset of columns that lack values",
    "suggestion, values": "lists of numbers in a text as texts",
}
