"""The one judge for what an input means: compares the roles of its fields with those that the layout stores.

Sources report the fields of tables, records and archives, and which of them they use; notes here name the rest.
`inference.py` does the same for folders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.examples.column_ranges import point_columns
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.sources.detect.column_names import is_mask_name
from beam_tfrecords.transforms.sources.detect.roles import Field, Role, describe_fields
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.tables.table import Table, first_cells

_MOST_NAMED = 20
_UNNAMED = "a column without a name"
# Content of annotations -> its name, and the layout that stores it.
_PARTS = {
    Content.POLYGONS: ("polygons", "detection_polygons` or `layout=detection_masks"),
    Content.KEYPOINTS: ("keypoints", "detection_keypoints"),
    Content.CAPTIONS: ("captions", "captions"),
}
# Format of annotations -> what its files may hold.
_ANNOTATIONS = {
    "COCO": "boxes, polygons, keypoints or captions",
    "YOLO": "boxes, polygons or keypoints",
    "Pascal VOC": "boxes, polygons and classes",
}
_MOST_FILES = 3
# Role -> the setting that uses a field of this role.
_REMEDIES = {
    Role.IMAGE: "`image_column` with all of them takes several images",
    Role.MASK: "`layout=segmentation` takes masks",
}


def describe_unread(unread: Mapping[Content, int], provides: Collection[Content]) -> Iterator[str]:
    """Yields notes on parts of annotated objects that their layout does not store.

    Args:
      unread: content -> number of annotations that have it.
      provides: contents that the source can read.
    """
    for content, count in unread.items():
        name, layout = _PARTS[content]
        remedy = f"; use `layout={layout}`" if content in provides or content is Content.CAPTIONS else ""
        yield f"{count:,} annotations have {name}, which are not stored{remedy}"


def describe_unread_files(
    annotations: Mapping[str, str],
    class_files: Sequence[str],
    files: Sequence[str],
    others: Sequence[str],
    *,
    labels: str,
) -> Iterator[str]:
    """Yields notes on the files beside images that may annotate them.

    Args:
      annotations: format -> an example of its files.
      class_files: paths of files of class names that no source reads there.
      files: paths of tables and lists.
      others: further files, in words.
      labels: what gives the labels: "folders", "label_pattern", or "" if the layout stores none.
    """
    gives = {"folders": "the folders give the labels", "label_pattern": "`label_pattern` gives the labels"}
    why = gives.get(labels, "the layout stores no labels")
    named = [f"{printable(path)}, which may name the classes; `class_names` takes such a file" for path in class_files]
    held = [
        f"annotations of {kind} ({path}), which may hold {_ANNOTATIONS[kind]}" for kind, path in annotations.items()
    ]
    for one in (*held, *named, *others):
        yield f"{why}; not read: {one}"
    if files:
        more = ", …" if len(files) > _MOST_FILES else ""
        yield f"{why}; not read: {', '.join(map(printable, files[:_MOST_FILES]))}{more}"


def describe_unused(table: Table, used: Collection[str | None], images: Sequence[str] = ()) -> list[str]:
    """Returns a note on the fields of an input that its layout does not store, with what they are.

    Args:
      table: the fields and the first samples.
      used: used fields; may include others.
      images: further fields, which hold images.
    """
    names = [name for name in (*images, *table.columns) if name not in used]
    if "" in names and all(str(cell).isdecimal() for cell in first_cells(table, [""]).get("", ())):
        names.remove("")  # The row numbers that pandas writes.
    if not names:
        return []
    embedded = {*images, *table.embedded}
    plain = [name for name in names[:_MOST_NAMED] if name not in embedded]
    roles = {one.name: one.role for one in describe_fields(first_cells(table, plain))}
    roles |= {name: Role.MASK if is_mask_name(name) else Role.IMAGE for name in embedded}
    fields = [Field(name, roles[name]) for name in names[:_MOST_NAMED]]
    shown = ", ".join(f"{name or _UNNAMED} ({role.value})" if role.value else name or _UNNAMED for name, role in fields)
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    remedies = dict.fromkeys(_REMEDIES[role] for _, role in fields if role in _REMEDIES)
    named = next(filter(None, names), None)
    remedy = "; ".join([*remedies, f"a layout takes such as column.{named}" if named else "give it a name to use it"])
    points = point_columns(plain)
    if len(points) > 2:
        remedy += f", and points that move with the image as columns.{points[0]}..{points[-1]} with `moves: points`"
    return [f"{printable(storage.basename(table.path))}: not used: {shown}{more}; {remedy}"]
