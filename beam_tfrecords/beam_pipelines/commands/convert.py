"""`beam-tfrecords convert`: builds a dataset from images and labels."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.build import build_dataset
from beam_tfrecords.beam_pipelines.interrupts import keep_interrupts
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE, UNPUBLISHED
from beam_tfrecords.beam_pipelines.messages.outcomes import Published
from beam_tfrecords.beam_pipelines.messages.run_summary import RunSummary
from beam_tfrecords.beam_pipelines.messages.summary import (
    describe_versions,
    explain_unpublished,
    summarize,
)
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord
from beam_tfrecords.beam_pipelines.settings.command_line import find_summary_files, parse_arguments
from beam_tfrecords.beam_pipelines.settings.definitions import read_request
from beam_tfrecords.beam_pipelines.settings.suggested_commands import change_command
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.dataset.files import CHANGES, FAILURES
from beam_tfrecords.dataset.published import read_changes
from beam_tfrecords.transforms.publishing.lists import find_examples


def convert(argv: Sequence[str]) -> int:
    """Runs the command."""
    files = find_summary_files(argv)
    summary = RunSummary(files["json_summary"], files["metrics_file"])
    with summary.written(), keep_interrupts():
        summary.exit_code = _convert(argv, parse_arguments(argv), summary)
    return summary.exit_code


def _convert(argv: Sequence[str], arguments: argparse.Namespace, summary: RunSummary) -> int:
    start = time.monotonic()
    runner = find_runner(arguments.beam)
    # First, because a misspelt flag is a likelier mistake than the error that its absence would cause.
    runner.arguments.check_known()
    spec = read_request(arguments.raw_values)
    summary.output = spec.output
    if arguments.dry_run:
        from beam_tfrecords.beam_pipelines.build.dry_run import make_plan

        Execution.prepare(runner)
        planned = make_plan(spec)
        show(*planned.lines)
        return DONE if planned.publishes else UNPUBLISHED
    outcome = build_dataset(
        spec,
        arguments.beam,
        quiet=arguments.quiet,
        wait=not arguments.no_wait,
        keeps_job=arguments.keep_job,
        fails_job=arguments.fail_job,
        report=not arguments.no_report,
    )
    seconds = time.monotonic() - start
    if isinstance(outcome, JobRecord):
        summary.status, summary.more["job"] = "submitted", dataclasses.asdict(outcome)
        if not arguments.quiet:
            show(f"submitted: job {outcome.job_id}", f"watch it: {outcome.url}")
            show(f"how far it is: beam-tfrecords status --output={shlex.quote(spec.output)}")
        return DONE
    if isinstance(outcome, Published):
        summary.add_published(outcome)
        if not arguments.quiet:
            if outcome.is_unchanged:
                show(*describe_versions(outcome, spec), f"nothing has changed since dataset: {outcome.path}")
            else:
                manifest = outcome.dataset.manifest
                *lines, last = summarize(
                    manifest,
                    output=outcome.path,
                    seconds=seconds,
                    examples=find_examples(storage.join(outcome.path, FAILURES), manifest["failure_reasons"]),
                    changes=read_changes(outcome.path) if CHANGES in manifest["files"] else None,
                    # The last one, because the others are requests too.
                    request_metrics=summary.add_request_metrics(),
                )
                lines += describe_versions(outcome, spec)
                show(*lines, *([f"report: {outcome.report}"] if outcome.report else []), last)
        return DONE

    def change(settings: Mapping[str, Any]) -> str:
        accepted = [guard.value for guard in spec.accept]
        merged = {name: ",".join([*accepted, value]) if name == "accept" else value for name, value in settings.items()}
        return change_command("convert", argv, merged)

    lines = list(explain_unpublished(outcome, change))
    summary.add_unpublished(outcome, lines[0])
    show(*lines, file=sys.stderr)
    return UNPUBLISHED
