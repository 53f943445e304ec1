"""What a build takes from the one before it, and the folder that it writes to."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS, fill_spec
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import TRIED_AGAIN, BuildError, RequestError
from beam_tfrecords.output.files import SUCCESS, VERSION_NAME
from beam_tfrecords.output.pointers import find_latest_damage, point_to, read_pinned
from beam_tfrecords.output.versions import (
    State,
    find_newest,
    find_old,
    find_unfinished,
    list_versions,
    new_version,
    remove,
)
from beam_tfrecords.reading.dataset import Dataset, open_published, read_latest
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
    """The datasets that a build looks back to.

    Attributes:
      version: the version that guards and changes are compared with: the one before, or the pinned one; or None.
      reused: the dataset whose records are reused, or None.
      notes: datasets that were passed over because they are damaged, one line each.
      warning: why readers fail until a version is published; None if they do not.
      newest: the version before, or None: a build that would make it again makes none.
      names: of the versions that are there and finished.
    """

    version: Dataset | None
    reused: Dataset | None
    notes: tuple[str, ...] = ()
    warning: str | None = None
    newest: Dataset | None = None
    names: tuple[str, ...] = ()


NOTHING = Previous(None, None)


def open_previous(spec: BuildSpec) -> Previous:
    """Opens the version before, and the dataset to take records from.

    Raises:
      RequestError: `reuse` names no dataset.
    """
    schedule = spec.schedule
    before = _open_versions(spec.output) if schedule.versioned else NOTHING
    if schedule.reuse == NO_REUSE:
        return before
    if schedule.reuse is None:
        return dataclasses.replace(before, reused=before.version)
    reused, more = open_newest(schedule.reuse)
    if reused is None and not more:
        reused, damage = open_published(schedule.reuse.rstrip("/"))
        if damage:
            more = (f"{schedule.reuse} is damaged, so nothing of it is reused: {damage}",)
        elif reused is None:
            raise RequestError(
                f"`reuse={schedule.reuse}`: no finished dataset (there is no {SUCCESS}); expected the `output` of a "
                "build, or `reuse=none`"
            )
    notes = (*before.notes, *(note for note in more if note not in before.notes))
    return dataclasses.replace(before, reused=reused, notes=notes)


def _open_versions(root: str) -> Previous:
    """Opens the version that a new one is compared with, and the one before it."""
    version, notes = open_newest(root)
    names = tuple(version.name for version in list_versions(root) if version.state is State.FINISHED)
    pinned, newest = read_pinned(root), version
    if pinned is not None:
        name = find_newest(root)
        newest = open_published(storage.join(root, name))[0] if name else None
        # `check_output` has found it whole.
        version = open_published(storage.join(root, pinned))[0] or newest
    return Previous(version, None, notes, find_latest_damage(root), newest, names)


def previous_classes(spec: BuildSpec, previous: Previous) -> Sequence[str]:
    """The classes of the dataset that `class_order=stable` follows, in index order."""
    dataset = previous.version if spec.schedule.versioned else previous.reused
    return dataset.class_names if dataset else ()


def would_repeat(previous: Previous, spec: BuildSpec, metadata: Mapping[str, Any]) -> bool:
    """Whether a build would make the version before again, failures included.

    Args:
      previous: the datasets before.
      spec: the request.
      metadata: what the manifest would say, as far as it is known.
    """
    version = previous.newest
    return (
        version is not None
        and spec.source.fingerprint is Fingerprint.STAT
        and version.states(metadata)
        and not version.find_missing()
        and TRIED_AGAIN.isdisjoint(version.manifest["failure_reasons"])
        and not version.manifest.get("damaged_containers")
    )


def open_newest(root: str) -> tuple[Dataset | None, tuple[str, ...]]:
    """Opens the version that `LATEST` names, or the newest that is whole.

    Args:
      root: the folder of the versions.

    Returns:
      The version, None if there is none; and why others were passed over, one line each.
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
    """Lets `LATEST` name a version that was just published, or that the input would make again, if it does not.

    Raises:
      BuildError: a version is pinned that is damaged.
    """
    name = storage.basename(path)
    if spec.schedule.versioned and read_latest(spec.output) != name:
        point_to(spec.output, name, staging=Workspace(spec.output).path)


def choose_version(spec: BuildSpec, folder: str, previous: Previous) -> str:
    """The name of the version that a build writes: that of the attempt that it resumes, or a new one.

    It is registered: what is written to its folder is ours.

    Args:
      spec: the request.
      folder: of the build, for temporary files.
      previous: the datasets before.
    """
    name = read_version(folder)
    if name is None or storage.exists(storage.join(spec.output, name, SUCCESS)):
        name = new_version(spec.output, time.time(), names=previous.names)
        storage.write_bytes(BuildFolder(folder).version, name.encode())
    register_version(spec.output, name)
    return name


def read_version(folder: str) -> str | None:
    """The version that a build writes, from its folder for temporary files; None if it writes none."""
    name = (read_if_there(BuildFolder(folder).version) or b"").decode(errors="replace")
    # A power cut may have emptied the file, and a stranger's names anything.
    return name if VERSION_NAME.fullmatch(name) else None


def plan_reuse(
    spec: BuildSpec, previous: Dataset | None, *, versions: Mapping[str, str], blocks: Mapping[str, int]
) -> tuple[ReusePlan | None, str]:
    """How records of a previous dataset are reused, and why none can be; "" if some can.

    Args:
      spec: the request, with its layout.
      previous: the dataset.
      versions: library -> version.
      blocks: split -> number of blocks.
    """
    from beam_tfrecords.transforms.blocks.reuse import (
        ReusePlan,  # NumPy and Arrow, which a refused request has no need of.
    )

    if previous is None:
        return None, ""
    old = previous.manifest
    if old["spec"]["seed"] != spec.seed:
        return None, f"seed changed from {old['spec']['seed']} to {spec.seed}, and with it the order"
    if previous.compression == "gzip":
        return None, "its shards are compressed, so that single records cannot be read"
    if not any(shard.first_key is not None for shard in previous.shards):
        return None, "an earlier version of beam-tfrecords wrote it"
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
        hashes_files=spec.source.fingerprint is Fingerprint.CONTENT,
    )
    if not changes and images[0] != images[1]:
        changes = ["layout changed in what it holds of the image"]
    return plan, "; ".join(changes)


def _image_features(layout: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: feature for name, feature in layout.items() if feature["field"].startswith("image.")}


def record_settings(spec: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """What decides the bytes of one record: settings by name, libraries by theirs.

    Args:
      spec: the settings of a build, as its manifest has them.
      versions: library -> version.
    """
    names = [name for name, one in SETTINGS.items() if one.decides_records]
    return {**{name: spec.get(name) for name in names}, **record_versions(versions)}


def clean_versions(spec: BuildSpec, *, unfinished: bool = True) -> tuple[str, ...]:
    """Removes versions that are not needed any more; returns their names.

    Args:
      spec: the request.
      unfinished: whether what dead builds have left of theirs goes too.
    """
    workspace, schedule, removed = Workspace(spec.output), spec.schedule, []
    names = find_unfinished(spec.output, workspace.list_versions()) if unfinished else []
    if schedule.keep_versions is not None:
        names += find_old(
            spec.output,
            pinned=read_pinned(spec.output),
            keep=schedule.keep_versions,
            grace=schedule.grace,
            now=storage.now(workspace.lease),
        )
    for name in names:
        try:
            # Also an empty folder that a killed removal leaves is known as ours.
            register_version(spec.output, name)
            if remove(spec.output, name):
                removed.append(name)
            # What is left of its folder is somebody's.
            storage.delete_files([workspace.version(name)])
        except (OSError, BuildError) as error:  # the new version is published all the same
            reason = getattr(error, "strerror", None) or error
            show(f"note: version {name} could not be removed: {reason}; the next build does it", file=sys.stderr)
    return tuple(removed)
