"""Writes the files that describe a dataset to people and programs."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import Dataset
from beam_tfrecords.dataset.files import CARD, CROISSANT, MANIFEST
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.contents import Content
from beam_tfrecords.reading.reading_code import reading_code
from beam_tfrecords.transforms.images.image_spec import ResizeMode
from beam_tfrecords.transforms.publishing.croissant import write_croissant
from beam_tfrecords.transforms.publishing.publication import Publication, WrittenFile
from beam_tfrecords.transforms.publishing.tfds_metadata import write_metadata

# Maximum number of classes that the card lists.
_MOST_CLASSES = 100
# Markdown's markup, anywhere and at the start of a line.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#|~&!$]|^[-+=]|(?<=^[0-9])[.)])")


def write_files(
    publication: Publication, described: Mapping[str, Any], shards: Sequence[Shard], *, check: storage.Check
) -> dict[str, WrittenFile]:
    """Writes the files that describe a dataset; returns name -> written file.

    Args:
      publication: settings for publishing.
      described: the manifest without `files`.
      shards: shards of the dataset.
      check: as in `storage.open_new`.
    """
    dataset, image = Dataset(publication.output, described, tuple(shards), "", ""), publication.image
    if size := described.get("array_size"):
        image = dataclasses.replace(image, image_size=size, resize_mode=ResizeMode.EXACT, upscale=True)
    metadata = write_metadata(
        name=publication.name,
        layout=publication.layout,
        image=image,
        class_names=publication.class_names,
        shards=shards,
        settings=described["spec"],
    )
    metadata |= {CARD: "\n".join([*_card_lines(dataset), ""]).encode(), CROISSANT: write_croissant(dataset, metadata)}
    contents = sorted(metadata.items())
    written = storage.run_concurrently(
        publication.output, *(functools.partial(publication.write, *one, check=check) for one in contents)
    )
    return dict(zip((name for name, _ in contents), written, strict=True))


def _card_lines(dataset: Dataset) -> Iterator[str]:
    """Yields the lines of the dataset card `README.md`: what it is and how to read it, from the manifest alone."""
    manifest, spec = dataset.manifest, dataset.manifest["spec"]
    yield f"# {_text(manifest['name'])}\n"
    if spec["description"]:
        yield f"{_text(spec['description'])}\n"
    known = {
        "Licence": spec["license"] and _text(spec["license"]),
        "Source": spec["homepage"] and f"<{escape(spec['homepage'])}>",
    }
    if lines := [f"- {title}: {value}" for title, value in known.items() if value]:
        yield "\n".join(lines) + "\n"
    yield from _table(
        ("split", "records", "shards", "bytes"),
        (
            (split, f"{entry['records']:,}", f"{entry['shards']:,}", f"{entry['bytes']:,}")
            for split, entry in manifest["splits"].items()
        ),
    )
    yield from _table(
        ("feature", "type", "holds"),
        ((feature.name, feature.shown_type, feature.field) for feature in dataset.layout.features),
    )
    if Content.IMAGE in dataset.layout.required:
        images = dataset.images
        size = f" of {images.size[0]} x {images.size[1]} pixels (height x width)" if images.size else ""
        kept = images.encoding == "keep"
        yield f"Images are {'kept as their files are' if kept else f'stored as {images.encoding}'}{size}.\n"
    lists = {"Classes": dataset.class_names}
    lists |= {f"Classes of {_text(name)}": head.class_names for name, head in dataset.layout.heads.items()}
    for title, names in lists.items():
        more = f", and {len(names) - _MOST_CLASSES:,} more" if len(names) > _MOST_CLASSES else ""
        listed = ", ".join(f"{index} {_text(name)}" for index, name in enumerate(names[:_MOST_CLASSES]))
        if names:
            yield f"{title}: {listed}{more}.\n"
    yield "## Reading\n"
    for title, code in reading_code(dataset).items():
        yield f"{title}:\n\n```python\n{code}```\n"
    if spec["citation"]:
        # Only an unindented line ends an indented block.
        quoted = "\n".join(f"    {escape(line)}" for line in spec["citation"].split("\n"))
        yield f"## Citation\n\n{quoted}\n"
    yield f"Made by beam-tfrecords; `{MANIFEST}` says how."


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(map(_text, row))} |"
    yield ""


def _text(text: str) -> str:
    """Escapes a text of the input, so that Markdown shows it literally."""
    return _MARKUP.sub(r"\\\1", escape(text))
