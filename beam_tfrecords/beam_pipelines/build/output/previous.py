"""The previous datasets of a build, and the version that it writes."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, fill_spec
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset.dataset import StoredDataset, open_published
from beam_tfrecords.dataset.files import SUCCESS, VERSION_NAME
from beam_tfrecords.dataset.pointers import find_latest_damage, point_to, read_pinned
from beam_tfrecords.dataset.published import read_latest
from beam_tfrecords.dataset.versions import (
    State,
    find_newest,
    find_old,
    find_unfinished,
    list_versions,
    new_version,
    remove,
)
from beam_tfrecords.errors import TRIED_AGAIN, BuildError, RequestError
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.libraries import record_versions
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.request.schedule_spec import NO_REUSE
from beam_tfrecords.transforms.sources.source_spec import Fingerprint
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder, Workspace
from beam_tfrecords.transforms.workspace.output_folder import register_version
from beam_tfrecords.transforms.workspace.state_files import read_if_there

if TYPE_CHECKING:
    from beam_tfrecords.transforms.blocks.reuse import ReusePlan


@dataclasses.dataclass(frozen=True)
class Previous:
    """The previous datasets of a build.

    Attributes:
      version: the version that guards and changes are compared with: the newest, or the pinned one; or None.
      reused: the dataset whose records are reused, or None.
      notes: damaged datasets that were skipped, one line each.
      warning: why readers fail until a version is published; None if they do not.
      newest: the newest version, or None; a build that would repeat it publishes nothing.
      names: names of the finished versions.
    """

    version: StoredDataset | None
    reused: StoredDataset | None
    notes: tuple[str, ...] = ()
    warning: str | None = None
    newest: StoredDataset | None = None
    names: tuple[str, ...] = ()


NOTHING = Previous(None, None)
_MOST_MOVED = 10


def open_previous(spec: BuildSpec) -> Previous:
    """Opens the previous version, and the dataset whose records are reused.

    Raises:
      RequestError: `reuse` names no dataset.
    """
    before = _open_versions(spec.output) if spec.versioned else NOTHING
    if spec.reuse == NO_REUSE:
        return before
    if spec.reuse is None:
        return dataclasses.replace(before, reused=before.version)
    reused, more = open_newest(spec.reuse)
    if reused is None and not more:
        reused, damage = open_published(spec.reuse.rstrip("/"))
        if damage:
            more = (f"{spec.reuse} is damaged, so nothing of it is reused: {damage}",)
        elif reused is None:
            raise RequestError(
                f"`reuse={spec.reuse}`: no finished dataset (there is no {SUCCESS}); expected the `output` of a "
                "build, or `reuse=none`",
                code="no_dataset",
            )
    notes = (*before.notes, *(note for note in more if note not in before.notes))
    return dataclasses.replace(before, reused=reused, notes=notes)


def _open_versions(root: str) -> Previous:
    """Opens the version that a new one is compared with, and the newest one."""
    version, notes = open_newest(root)
    names = tuple(version.name for version in list_versions(root) if version.state is State.FINISHED)
    pinned, newest = read_pinned(root), version
    if pinned is not None:
        name = find_newest(root)
        newest = open_published(storage.join(root, name))[0] if name else None
        # `check_output` has verified that it is whole.
        version = open_published(storage.join(root, pinned))[0] or newest
    return Previous(version, None, notes, find_latest_damage(root), newest, names)


def previous_classes(spec: BuildSpec, previous: Previous) -> tuple[Sequence[str], Mapping[str, Sequence[str]]]:
    """Returns the classes of the dataset that `class_order=stable` follows, in index order, and of each head."""
    dataset = previous.version if spec.versioned else previous.reused
    if dataset is None:
        return (), {}
    return dataset.class_names, {name: head.class_names for name, head in dataset.layout.heads.items()}


def describe_moved_classes(spec: BuildSpec, class_names: Sequence[str], heads: Mapping[str, ClassNames]) -> list[str]:
    """Returns a warning about classes that have another index in the dataset that the build replaces, if any have.

    Args:
      spec: the request.
      class_names: classes of the labels, in index order.
      heads: feature -> its classes.
    """
    replaced = open_published(spec.output)[0] if spec.overwrite else None
    moved = _find_moved(replaced.class_names, class_names) if replaced else []
    for name, head in replaced.layout.heads.items() if replaced else ():
        after = heads[name].names if name in heads else ()
        moved += [f"{one} of {name}" for one in _find_moved(head.class_names, after)]
    if not moved:
        return []
    more = [f"and {len(moved) - _MOST_MOVED:,} more"] if len(moved) > _MOST_MOVED else []
    keeps = f"`class_order=stable` `reuse={spec.output}` keeps them, and converts only what changed"
    return [
        f"class indices change in {spec.output}: {', '.join([*moved[:_MOST_MOVED], *more])}; models that were trained "
        f"on the replaced dataset expect the old ones; {'`class_names` decides them' if spec.class_names else keeps}"
    ]


def _find_moved(before: Sequence[str], after: Sequence[str]) -> list[str]:
    now = {name: index for index, name in enumerate(after)}
    return [f"{name} {index} -> {now[name]}" for index, name in enumerate(before) if now.get(name, index) != index]


def would_repeat(previous: Previous, spec: BuildSpec, metadata: Mapping[str, Any]) -> bool:
    """Whether a build would repeat the newest version, including its failures.

    Args:
      previous: the previous datasets.
      spec: the request.
      metadata: the known part of the manifest's metadata.
    """
    version = previous.newest
    return (
        version is not None
        and spec.fingerprint is Fingerprint.STAT
        and version.is_made_of(spec.published_paths)
        and version.states(metadata)
        and not version.find_missing()
        and TRIED_AGAIN.isdisjoint(version.manifest["failure_reasons"])
        and not version.manifest.get("damaged_containers")
    )


def open_newest(root: str) -> tuple[StoredDataset | None, tuple[str, ...]]:
    """Opens the version that `LATEST` names, or the newest whole one.

    Args:
      root: the folder of the versions.

    Returns:
      The version, or None; and why other versions were skipped, one line each.
    """
    latest = read_latest(root)
    whole, damage = open_published(storage.join(root, latest)) if latest else (None, None)
    if whole:
        return whole, ()
    damages: dict[str | None, str | None] = {latest: damage} if damage else {}
    for version in reversed(list_versions(root)):
        if version.name != latest and version.state in (State.FINISHED, State.DAMAGED):
            whole, damages[version.name] = open_published(storage.join(root, version.name))
        if whole:
            break
    notes = [f"version {name} is damaged, and left as it is: {damage}" for name, damage in damages.items() if damage]
    if latest not in damages and (told := find_latest_damage(root)):
        notes.insert(0, told)
    return whole, tuple(notes)


def point_to_whole(spec: BuildSpec, path: str) -> None:
    """Makes `LATEST` name a version that was just published, or that the input would repeat, unless it already does.

    Raises:
      BuildError: the pinned version is damaged.
    """
    name = storage.basename(path)
    if spec.versioned and read_latest(spec.output) != name:
        point_to(spec.output, name, staging=Workspace(spec.output).path)


def choose_version(spec: BuildSpec, folder: str, previous: Previous) -> str:
    """Returns the name of the version that a build writes: the name of the resumed attempt, or a new one.

    Registers the version, which marks everything in its folder as ours.

    Args:
      spec: the request.
      folder: temporary folder of the build.
      previous: the previous datasets.
    """
    name = read_version(folder)
    if name is None or storage.exists(storage.join(spec.output, name, SUCCESS)):
        name = new_version(spec.output, time.time(), names=previous.names)
        storage.write_bytes(BuildFolder(folder).version, name.encode())
    register_version(spec.output, name)
    return name


def read_version(folder: str) -> str | None:
    """Reads the version that a build writes from its temporary folder; returns None if it writes none."""
    name = (read_if_there(BuildFolder(folder).version) or b"").decode(errors="replace")
    # A power loss may have emptied the file, and a foreign file may contain anything.
    return name if VERSION_NAME.fullmatch(name) else None


def plan_reuse(
    spec: BuildSpec, previous: StoredDataset | None, *, versions: Mapping[str, str], blocks: Mapping[str, int]
) -> tuple[ReusePlan | None, str]:
    """Plans how to reuse records of a previous dataset; also returns why none can be reused, or "" if some can.

    Args:
      spec: the request, with its layout.
      previous: the dataset.
      versions: library -> version.
      blocks: split -> number of blocks.
    """
    if previous is None:
        return None, ""
    # Only builds with a previous dataset need these modules.
    from beam_tfrecords.transforms.blocks.reuse import ReusePlan

    old = previous.manifest
    if old["spec"]["seed"] != spec.seed:
        return None, f"seed changed from {old['spec']['seed']} to {spec.seed}, and with it the order"
    if previous.compression == "gzip":
        return None, "its shards are compressed, so that single records cannot be read"
    before = record_settings(fill_spec(old["spec"]), old["versions"])
    now = record_settings(spec.to_json(), versions)
    layouts = before.pop("layout"), now.pop("layout")
    changes = [f"{name} changed from {before[name]} to {now[name]}" for name in now if before[name] != now[name]]
    images = [_image_features(layout) for layout in layouts]
    plan = ReusePlan(
        previous=previous.ref,
        seed=spec.seed,
        blocks=blocks,
        takes_images=not changes and images[0] == images[1],
        hashes_files=spec.fingerprint is Fingerprint.CONTENT,
        is_same_input=previous.is_made_of(spec.published_paths),
    )
    if not changes and images[0] != images[1]:
        changes = ["layout changed in what it holds of the image"]
    return plan, "; ".join(changes)


def _image_features(layout: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: feature for name, feature in layout.items() if feature["field"].startswith("image.")}


def record_settings(spec: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """Returns everything that determines the bytes of one record: settings and libraries by name.

    Args:
      spec: the settings of a build, as in its manifest.
      versions: library -> version.
    """
    names = [name for name, one in SETTINGS.items() if one.decides_records]
    found = {name: spec.get(name) for name in names}
    # A record has one class of a list, and the hash of a sample has that class.
    layout = {
        name: {key: value for key, value in feature.items() if key != "class_names"}
        for name, feature in (found["layout"] or {}).items()
    }
    return {**found, "layout": layout or found["layout"], **record_versions(versions)}


def clean_versions(spec: BuildSpec) -> tuple[str, ...]:
    """Removes old versions, and versions that dead builds have left; returns their names.

    Args:
      spec: the request.
    """
    workspace, removed = Workspace(spec.output), list[str]()
    unfinished = find_unfinished(spec.output, workspace.list_versions())
    # Read last, because a build names its version in its folder before it registers the version.
    going = set(map(read_version, workspace.list_builds())) if unfinished else set()
    names = [name for name in unfinished if name not in going]
    if spec.keep_versions is not None:
        names += find_old(
            spec.output,
            pinned=read_pinned(spec.output),
            keep=spec.keep_versions,
            grace=spec.grace,
            now=storage.now(workspace.lease),
        )
    for name in names:
        try:
            if remove_version(spec.output, name):
                removed.append(name)
        except (OSError, BuildError) as error:  # does not affect the new version
            reason = getattr(error, "strerror", None) or error
            show(f"note: version {name} could not be removed: {reason}; the next build does it", file=sys.stderr)
    return tuple(removed)


def remove_version(output: str, name: str) -> bool:
    """Removes a version; returns as `remove` does."""
    # Registering also marks an empty folder, left by a killed removal, as ours.
    register_version(output, name)
    is_removed = remove(output, name)
    # Files that remain in the folder are not ours.
    storage.delete_files([Workspace(output).version(name)])
    return is_removed
