"""Decides whether a dataset is published, and prepares the output for it."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Mapping

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import DUPLICATES, FAILURES, SUCCESS
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.publishing.changes import evaluate_version
from beam_tfrecords.transforms.publishing.guards import GuardResult, find_violated
from beam_tfrecords.transforms.publishing.lists import find_examples, read_outcome
from beam_tfrecords.transforms.publishing.publication import Publication
from beam_tfrecords.transforms.request.schedule_spec import GuardMode
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.counts import PAUSE_SECONDS, add_step
from beam_tfrecords.transforms.workspace.output_folder import remove_replaced_files

# Maximum number of failures in a message.
_MOST_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Decision:
    """The decision whether a dataset is published.

    Attributes:
      publishes: whether the dataset is published.
      causes: exceeded limits that prevent publishing, in words.
      guard_results: results of all guards.
      violated: results of guards that prevent publishing.
      reasons: reason -> number of rejected samples, if something prevents publishing.
    """

    publishes: bool
    causes: tuple[str, ...]
    guard_results: tuple[GuardResult, ...]
    violated: tuple[GuardResult, ...]
    reasons: Mapping[str, int]


def open_output(stats: Stats, *, publication: Publication) -> Decision:
    """Checks that no sample is lost, evaluates limits and guards, and removes the dataset that the new one replaces.

    Raises:
      BuildError: samples are lost, see `check_counts`; or another build has taken over.
    """
    add_step(publication.folder, evaluated=1, pause=PAUSE_SECONDS if storage.has_scheme(publication.folder) else 0)
    check_counts(stats, listed=publication.listed)
    causes = tuple(publication.find_causes(stats))
    history = None if causes else publication.history
    guard_results = evaluate_version(history, publication.describe(stats), stats) if history else []
    is_strict = history is not None and history.schedule.guard is GuardMode.STRICT
    violated = tuple(find_violated(guard_results)) if is_strict else ()
    reasons = stats.failure_reasons() if causes else {}
    decision = Decision(not (causes or violated), causes, tuple(guard_results), violated, reasons)
    publication.fence.check()
    names = [*publication.name_shards(stats), *publication.name_metadata()] if decision.publishes else []
    if not keeps_dataset(publication, decision):
        publication.add_to_journal([*names, FAILURES, DUPLICATES])
        if publication.journal.replaces:
            remove_replaced_files(publication.output, delete=publication.delete)
    return decision


def keeps_dataset(publication: Publication, decision: Decision) -> bool:
    """Whether an existing dataset stays, so that the lists of an unpublished build go to the build's folder."""
    if decision.publishes:
        return False
    return publication.history is not None or storage.exists(storage.join(publication.output, SUCCESS))


def check_counts(stats: Stats, *, listed: Mapping[str, int]) -> None:
    """Checks that no sample is lost: listed = written + failed + filtered + dropped + merged + replaced, per split.

    Raises:
      BuildError: samples are lost.
    """
    for split, own in stats.by_split(listed).items():
        expected = listed[split]
        counts = {what: own.total(what, split) for what in ("written", "failed", "dropped", "merged")}
        # The message names these counts only if they are not 0.
        rare = {what: own.total(what, split) for what in ("filtered", "replaced")}
        counts |= {what: count for what, count in rare.items() if count}
        if lost := expected - sum(counts.values()):
            found = ", ".join(f"{count} {what}" for what, count in counts.items())
            raise BuildError(f"split {split or '(none)'}: {expected} samples were listed, and {found}; {lost} are lost")


def explain_decision(decision: Decision, *, publication: Publication) -> str:
    """Returns the message of a job that published nothing, with a few of the rejected samples."""
    rejected = ", ".join(f"{reason} {count:,}" for reason, count in decision.reasons.items())
    why = [*decision.causes, *([f"rejected: {rejected}"] if rejected else [])]
    outcome = read_outcome(publication.folder)
    failures = "" if outcome is None else storage.join(outcome["folder"], FAILURES)
    if failures and storage.exists(failures):
        examples = find_examples(failures, decision.reasons)
        why += [f"for example {key}: {detail}" for key, detail in itertools.islice(examples.values(), _MOST_SHOWN)]
    why += [f"guard {result}" for result in decision.violated]
    command = f"beam-tfrecords status --output={shlex.quote(publication.root)}"
    return f"nothing was published: {'; '.join(why)}; `{command}` says more"
