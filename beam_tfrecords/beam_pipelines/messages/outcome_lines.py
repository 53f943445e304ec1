"""Lines of `convert` about a build's outcome, for people."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.messages.outcomes import Published, Unpublished
from beam_tfrecords.beam_pipelines.messages.summary import (
    describe_duplicates,
    describe_reasons,
)
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.dataset.files import CHANGES, DUPLICATES, FAILURES, LATEST
from beam_tfrecords.transforms.publishing.lists import find_examples
from beam_tfrecords.transforms.request.build_spec import BuildSpec


def describe_versions(outcome: Published, spec: BuildSpec) -> Iterator[str]:
    """Yields lines about removed versions, and about the pinned one."""
    for name in outcome.removed:
        yield f"removed: version {name}"
    if outcome.pinned is not None:
        what = "" if outcome.is_unchanged else "published, but "
        yield (
            f"{what}{LATEST} stays at {outcome.pinned}, which is pinned; "
            f"`beam-tfrecords status --output={shlex.quote(spec.output)} --unpin` ends that"
        )


def explain_unpublished(
    outcome: Unpublished, change: Callable[[Mapping[str, Any]], str] | None = None
) -> Iterator[str]:
    """Yields lines that explain why nothing was published.

    Args:
      outcome: the outcome.
      change: returns the command with changed settings, if it is known.
    """
    if outcome.violated:
        yield "Nothing was published: the new version differs too much from the one before it."
        yield from (f"  guard {line}" for line in outcome.violated)
        yield f"changes: {storage.join(outcome.folder, CHANGES)}"
    else:
        yield show_flags(f"Nothing was published: {'; '.join(outcome.causes)}.")
    if outcome.duplicates.get("groups"):
        yield from describe_duplicates(outcome.duplicates)
        yield f"list: {storage.join(outcome.folder, DUPLICATES)}"
    if outcome.failed:
        failures = storage.join(outcome.folder, FAILURES)
        # Somebody may have cleaned up since.
        examples = find_examples(failures, outcome.reasons) if storage.exists(failures) else {}
        yield from describe_reasons(outcome.reasons, examples)
        yield f"list: {failures}"
    if outcome.remedy:
        wanted = "If that is right" if outcome.violated else "To publish the others"
        flags = " ".join(f"`{name}={value}`" for name, value in outcome.remedy.items())
        yield show_flags(f"{wanted}, use {flags}; the finished work is not done again{':' if change else '.'}")
        if change:
            yield f"  {change(outcome.remedy)}"
