"""What a build goes on from, of an attempt that was ended."""

from __future__ import annotations

from beam_pipelines.planning import MERGED, BuildPlan
from transforms import storage


def forget_taken_parts(plan: BuildPlan, processes: int) -> None:
    """Forgets the finished blocks of an attempt that was ended while its parts became shards.

    Unless this one goes the same way: then the shards are gone on with, too.

    Args:
      plan: the build.
      processes: of this machine that do the work; 0 if a cluster does it.
    """
    folder, merging = plan.block_plan.folder, plan.merging_folder(processes)
    if storage.has_scheme(folder):
        return
    note, merged = storage.join(folder, "way"), storage.join(folder, MERGED)
    way = f"duplicates={plan.spec.duplicates.value} merging={merging is not None}".encode()
    if storage.is_folder(merged) and storage.read_bytes(note) != way:
        storage.delete_tree(storage.join(folder, "blocks"))
        storage.delete_tree(merged)
    storage.write_bytes(note, way)
