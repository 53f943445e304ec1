"""The one judge for what an input means: compares the roles of its fields with those that the layout stores.

Sources report the fields of tables, records and archives, and which of them they use; notes here name the rest.
`inference.py` does the same for folders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.features.column_ranges import point_columns
from beam_tfrecords.transforms.sources.detect.column_names import is_mask_name
from beam_tfrecords.transforms.sources.detect.roles import Role, roles_of
from beam_tfrecords.transforms.sources.meaning.ledger import Entry, Fate, describe_ledger
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.tables.table import Table, first_cells

_MOST_NAMED = 20
_UNNAMED = "a column without a name"
# Role -> the setting that uses a field of this role.
_REMEDIES = {
    Role.IMAGE: "`image_column` with all of them takes several images",
    Role.MASK: "`layout=segmentation` takes masks",
}


def describe_unused(table: Table, used: Collection[str | None]) -> list[str]:
    """Returns notes on the fields of a table that a build does not store."""
    return describe_ledger(find_unused(table, used))


def find_unused(
    table: Table, used: Collection[str | None], images: Sequence[str] = (), *, count: int = 0
) -> Iterator[Entry]:
    """Yields the fields of an input that its layout does not store, with what their first values are.

    Args:
      table: the fields and the first samples.
      used: used fields; may include others.
      images: further fields, which hold images.
      count: number of samples; 0 if it is unknown.
    """
    names = [name for name in (*images, *table.columns) if name not in used]
    if "" in names and all(str(cell).isdecimal() for cell in first_cells(table, [""]).get("", ())):
        names.remove("")  # The row numbers that pandas writes.
    embedded = {*images, *table.embedded}
    plain = [name for name in names[:_MOST_NAMED] if name not in embedded]
    roles = roles_of(first_cells(table, plain))
    roles |= {name: Role.MASK if is_mask_name(name) else Role.IMAGE for name in embedded}
    remedies = dict.fromkeys(_REMEDIES[roles[name]] for name in names if roles.get(name) in _REMEDIES)
    named = next(filter(None, names), None)
    remedy = "; ".join([*remedies, f"a layout takes such as column.{named}" if named else "give it a name to use it"])
    points = point_columns(plain)
    if len(points) > 2:
        remedy += f", and points that move with the image as columns.{points[0]}..{points[-1]} with `moves: points`"
    file = printable(storage.basename(table.path))
    for name in names:
        detail = roles[name].value if name in roles else ""
        yield Entry(Fate.NOT_STORED, file, name or _UNNAMED, count, detail=detail, remedy=remedy)
