"""Follows the builds into an output until none runs, and finds out how the last one ended."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.output.previous import open_newest, read_version
from beam_tfrecords.beam_pipelines.build.output.refusal import read_refusal
from beam_tfrecords.beam_pipelines.build.output.state import describe_builds, describe_status, find_running, now_at
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.messages.progress import Progress
from beam_tfrecords.beam_pipelines.runners.jobs import AWAY
from beam_tfrecords.errors import BuildError
from beam_tfrecords.output.pointers import read_pinned
from beam_tfrecords.output.versions import list_versions, read_listed
from beam_tfrecords.reading.dataset import open_published
from beam_tfrecords.transforms.publishing.lists import read_outcome

_FOLLOW_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Followed:
    """A build that was followed.

    Attributes:
      build: its last description while it ran.
      version: the version that it writes, or None.
    """

    build: Mapping[str, Any]
    version: str | None


def follow(output: str) -> Followed | None:
    """Shows the progress of running builds until none runs, or until a runner does not answer for a minute.

    Returns:
      The last build that ran; None if none did.
    """
    followed: Followed | None = None
    while build := _find_going(output):
        folder, listed, version = build["folder"], build["listed"], read_version(build["folder"])
        answered = time.monotonic()
        # Without a launcher that follows it, a job does not report its number of samples.
        with Progress(folder, total=listed) if listed else contextlib.nullcontext():
            while build and build["folder"] == folder:
                followed = Followed(build, version)
                if build["state"] != "unknown":
                    answered = time.monotonic()
                elif time.monotonic() - answered > AWAY:
                    return followed
                time.sleep(_FOLLOW_SECONDS)
                build = find_running(describe_builds(output, now=now_at(output)))
    return followed


def _find_going(output: str) -> dict[str, Any] | None:
    """Returns the running build once its input is listed; None if there is none."""
    while True:
        build = find_running(describe_builds(output, now=now_at(output)))
        if build or describe_status(output, now=now_at(output))["state"] != "listing":
            return build
        time.sleep(_FOLLOW_SECONDS)


def find_end(output: str, followed: Followed | None, found: Mapping[str, Any]) -> Published | Unpublished | None:
    """Returns how the last build ended; None if the output has neither a build nor a dataset.

    Args:
      output: the folder that was given to `convert`.
      followed: the build that was followed; None describes what is there.
      found: the description of the output.

    Raises:
      RequestError: the job that listed the input found that it does not fit the request.
      BuildError: the build failed, or its runner does not answer.
    """
    builds = describe_builds(output, now=now_at(output)) if followed else list(filter(None, [found["build"]]))
    build = next((one for one in builds if followed is None or one["folder"] == followed.build["folder"]), None)
    if build is not None and build["state"] == "unpublished" and (values := read_outcome(build["folder"])):
        return Unpublished.of(values)
    if build is not None and build["state"] == "refused" and (refusal := read_refusal(build["folder"])):
        raise refusal.error()
    if build is not None and build["state"] == "unknown":
        raise BuildError(f"{build['why'][0]}, so nobody knows how the job ends; run this command again")
    if build is not None and build["state"] == "dead":
        why = build["why"][0] if build["why"] else "it ended without a result"
        raise BuildError(f"the build is dead: {why}; the command that started it resumes from its finished blocks")
    return _find_published(output, followed, latest=found["latest"])


def _find_published(output: str, followed: Followed | None, *, latest: str | None) -> Published | None:
    version = followed.version if followed else latest
    dataset, _ = open_published(storage.join(output, version) if version else output)
    request_metrics = followed.build["request_metrics"] if followed else {}
    if dataset is None and version:
        # A build that repeats the newest version removes its own.
        dataset, _ = open_newest(output)
        if dataset is not None:
            return Published(dataset, is_unchanged=True, request_metrics=request_metrics)
    if dataset is None:
        if followed:
            raise BuildError(f"the build ended, and {output} holds no dataset of it; the log of its runner may say why")
        return None
    published = Published(dataset, request_metrics=request_metrics)
    if not version:
        return published
    there = {one.name for one in list_versions(output)}
    removed = sorted(name for name in read_listed(output, version) if name not in there)
    return dataclasses.replace(published, removed=tuple(removed), pinned=read_pinned(output))
