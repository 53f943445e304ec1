"""`beam-tfrecords convert`: images and labels in, a dataset out."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from beam_pipelines.beam_import import import_beam_for_local_files
from beam_pipelines.checking import check_listing, open_spec_source
from beam_pipelines.exit_codes import DONE, UNPUBLISHED
from beam_pipelines.options import parse_arguments
from beam_pipelines.request import build_spec, check_output
from beam_pipelines.summary import describe_duplicates, describe_reasons, summarize
from transforms import storage
from transforms.dataset import BUILD_FOLDER, DUPLICATES, FAILURES, open_dataset
from transforms.errors import RequestError
from transforms.listing import write_listing
from transforms.pool import close_pools, usable_cores
from transforms.spec import BuildSpec, Duplicates

if TYPE_CHECKING:
    from beam_pipelines.planning import BuildPlan
    from beam_pipelines.running import Unpublished

# In the folder for temporary files.
_LOCK = "lock"


def convert(argv: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      The exit code.

    Raises:
      RequestError: if the request is wrong; nothing has been started then.
      BuildError: if the build failed.
    """
    start = time.monotonic()
    arguments = parse_arguments(argv)
    spec = build_spec(arguments.words)
    if arguments.beam:
        from beam_pipelines.runners import read_options

        read_options(arguments.beam, verbose=arguments.verbose)
    is_local = not any(argument.startswith(("--runner", "--direct_")) for argument in arguments.beam)
    processes = usable_cores() if is_local else 0
    with contextlib.ExitStack() as held:
        # Nothing heavy is imported or started before the request is known to be right.
        plan = prepare_build(spec, held)
        if processes:
            from beam_pipelines.head_start import begin_blocks

            # For what goes wrong before there is a pipeline.
            held.callback(close_pools)
            begin_blocks(plan, processes=processes)
            if not any(map(storage.has_scheme, (*spec.source.input, spec.output))):
                import_beam_for_local_files()
        from beam_pipelines.running import run_build

        outcome = run_build(plan, arguments.beam, verbose=arguments.verbose)
    seconds = time.monotonic() - start
    if outcome is None:
        print("\n".join(summarize(open_dataset(spec.output).manifest, output=spec.output, seconds=seconds)))
        return DONE
    print("\n".join(explain_refusal(outcome, spec)), file=sys.stderr)
    return UNPUBLISHED


def explain_refusal(outcome: Unpublished, spec: BuildSpec) -> Iterator[str]:
    """The lines that tell why nothing was published."""
    if spec.duplicates is Duplicates.FAIL and outcome.duplicates["groups"]:
        yield "there are identical images, and --duplicates=fail allows none. Nothing was published."
        yield from describe_duplicates(outcome.duplicates)
        yield f"listed one by one: {storage.join(outcome.folder, DUPLICATES)}"
    else:
        yield (
            f"{outcome.failed:,} of {outcome.listed:,} samples failed; --max_failures={spec.max_failures:g} allows "
            "fewer. Nothing was published."
        )
    if outcome.failed:
        yield from describe_reasons(outcome.reasons)
        yield f"listed one by one: {storage.join(outcome.folder, FAILURES)}"


def prepare_build(spec: BuildSpec, held: contextlib.ExitStack) -> BuildPlan:
    """Lists the input, holds the request against it, and puts the listing where all workers find it.

    Args:
      spec: the request.
      held: gets the lock that keeps other builds away from a local output.

    Raises:
      RequestError: if the request is wrong; nothing has been written then.
    """
    check_output(spec)
    spec, source = open_spec_source(spec)
    with tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as spool:
        listing, chunks = write_listing(
            source.samples(),
            spool,
            splits=spec.splits,
            seed=spec.seed,
            count_labels=spec.source.label_pattern is not None or spec.layout is None or spec.layout.needs_label,
        )
        class_names = check_listing(spec, source, listing)
        from beam_pipelines.planning import plan_build

        plan = plan_build(spec, class_names=class_names, listing=listing, chunks=chunks, skipped=source.skipped)
        try:
            if not held.enter_context(storage.lock(storage.join(spec.output, BUILD_FOLDER, _LOCK))):
                raise RequestError(
                    f"--output={spec.output}: another build is writing to it; wait for its end, or give another folder"
                )
            _remove_other_builds(spec.output, plan.block_plan.folder)
            for local, final in zip(chunks, plan.chunks, strict=True):
                storage.write_bytes(final, storage.read_bytes(local))
        except OSError as error:
            raise RequestError(f"--output={spec.output}: can't be written: {error.strerror or error}") from error
    return plan


def _remove_other_builds(output: str, folder: str) -> None:
    """Removes what builds of another input or spec have left; this one's own blocks are taken up again."""
    build_folder = storage.join(output, BUILD_FOLDER)
    if not storage.is_folder(build_folder):
        return
    kept = (folder.rstrip("/") + "/", storage.join(build_folder, _LOCK))
    storage.delete_files([entry.path for entry in storage.list_files(build_folder) if not entry.path.startswith(kept)])


if __name__ == "__main__":
    from beam_pipelines.cli import run_command

    sys.exit(run_command("convert", sys.argv[1:]))
