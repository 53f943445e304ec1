"""`beam-tfrecords verify`: every CRC, count, feature and image of a dataset."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence

from beam_pipelines.beam_import import import_beam_for_local_files
from beam_pipelines.exit_codes import DONE, FAILED
from beam_pipelines.options import Parser
from beam_pipelines.parsing import parse_int
from transforms import storage
from transforms.dataset import Dataset, open_dataset
from transforms.errors import RequestError


def verify(argv: Sequence[str]) -> int:
    """Runs the command.

    Returns:
      0 if everything holds, 1 if anything does not.

    Raises:
      RequestError: if there is no dataset.
    """
    parser = Parser(
        prog="beam-tfrecords verify",
        description="Checks every CRC, count, feature and image; exit code 0 only if all hold.",
        epilog="Every other flag goes to Beam's own options; a cluster needs --temp_location for what it finds.",
        allow_abbrev=False,
    )
    parser.add_argument("--dataset", metavar="FOLDER", required=True, help="the --output of a build")
    parser.add_argument("--limit", metavar="N", default=100, help="findings that are printed (100)")
    parser.add_argument("--verbose", action="store_true", help="show Beam's own log")
    arguments, beam_arguments = parser.parse_known_args(argv)
    limit = parse_int("--limit", arguments.limit, at_least=0)
    dataset = open_dataset(arguments.dataset)
    found = 0
    for found, finding in enumerate(_findings(dataset, beam_arguments, verbose=arguments.verbose), start=1):
        if found <= limit:
            print(finding)
    records = dataset.manifest["records"]
    where = f"{records:,} records in {len(dataset.shards):,} shards of {dataset.path}"
    if found:
        print(f"{found:,} finding{'s' if found > 1 else ''} in {where}", file=sys.stderr)
        return FAILED
    print(f"all holds: {where}")
    return DONE


def _findings(dataset: Dataset, beam_arguments: Sequence[str], *, verbose: bool) -> Iterator[str]:
    if not beam_arguments and not storage.has_scheme(dataset.path):
        import_beam_for_local_files()
    import apache_beam as beam

    from beam_pipelines.runners import choose_runner, is_local, read_options, temporary_location
    from transforms.pool import close_pools
    from transforms.verify_shards import VerifyShards
    from transforms.verifying import ShardCheck, verify_files

    options = read_options(beam_arguments, verbose=verbose)
    for finding in verify_files(dataset):
        yield str(finding)
    with tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as local:
        location = local if is_local(options) else temporary_location(options)
        if location is None:
            raise RequestError("--temp_location is missing; expected a folder that all workers can write to")
        prefix = storage.join(location, "findings")
        runner, processes = choose_runner(options)
        pipeline = beam.Pipeline(runner=runner, options=options)
        _ = (
            pipeline
            | "ListShards" >> beam.Create(dataset.shards)
            | "VerifyShards" >> VerifyShards(ShardCheck.of(dataset), processes=processes)
            | "ToJson" >> beam.Map(lambda finding: json.dumps(dataclasses.astuple(finding)))
            | "WriteFindings" >> beam.io.WriteToText(prefix)
        )
        try:
            pipeline.run().wait_until_finish()
        finally:
            close_pools()
        yield from _read_findings(location)


def _read_findings(location: str) -> Iterator[str]:
    from transforms.verifying import Finding

    findings = []
    for entry in storage.list_files(location):
        if storage.basename(entry.path).startswith("findings-"):
            findings += [json.loads(line) for line in storage.read_bytes(entry.path).decode().splitlines()]
    for values in sorted(findings, key=lambda one: (one[0], one[2] is None, one[2] or 0)):
        yield str(Finding(*values))
