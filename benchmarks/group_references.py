"""Lists, orders and groups references, and does nothing else: what a huge dataset costs before its first image.

    python benchmarks/group_references.py            a million links to tiny images

How long it took and its peak memory go to --results.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterable

import apache_beam as beam
from peak_memory import measure
from PIL import Image
from run import RESULTS, describe_machine, list_versions

from beam_tfrecords.beam_pipelines.execution.runners import Execution, find_runner
from beam_tfrecords.beam_pipelines.holding import hold_output
from beam_tfrecords.beam_pipelines.planning import BuildPlan
from beam_tfrecords.beam_pipelines.preparing import prepare_build
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.beam_pipelines.source_opening import open_spec_source
from beam_tfrecords.transforms.listing.stage import AssignOrder, ListSource
from beam_tfrecords.transforms.ref_columns import unpack_refs

_LINKS_PER_FILE = 10_000
_CLASSES = 100


def main() -> None:
    """Measures a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="of references")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        group_references(arguments.folder, arguments.count)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_links(pathlib.Path(folder), arguments.count)
        words = [f"--folder={folder}", f"--count={arguments.count}"]
        measured = measure([sys.executable, __file__, *words])
    if measured.exit_code:
        raise RuntimeError(f"grouping ended with exit code {measured.exit_code}")
    results = {
        "count": arguments.count,
        "rounds": 1,
        "machine": describe_machine(),
        "versions": list_versions(None),
        "seconds": measured.seconds,
        "peak_bytes": measured.peak_bytes,
    }
    print(f"{measured.seconds:.1f} s, {measured.peak_bytes / 1e6:.0f} MB")
    (arguments.results / "references.json").write_text(json.dumps(results, indent=1) + "\n")


def group_references(folder: str, count: int) -> None:
    """Lists the images of a folder as a build does, orders and groups them.

    Raises:
      RuntimeError: the folder has another number of images.
    """
    with tempfile.TemporaryDirectory() as output:
        words = {"input": folder, "output": f"{output}/out", "image_encoding": "keep", "check": "header"}
        execution = Execution.prepare(find_runner([]), verbose=False)
        spec, source = open_spec_source(read_build_spec(words))
        with hold_output(spec, execution.runner) as held:
            plan = prepare_build(spec, source, execution, output=held)
        assert isinstance(plan, BuildPlan)
        if (listed := sum(plan.publication.listed.values())) != count:
            raise RuntimeError(f"{listed} references were listed, and there are {count} images")
        execution.run(
            lambda root: (
                root
                | "ListSource" >> ListSource(plan.block_plan.folder)
                | "AssignOrder"
                >> AssignOrder(seed=plan.spec.seed, blocks=plan.blocks, processes=execution.runner.processes)
                | "GroupByKey" >> beam.GroupByKey()
                | "Count" >> beam.MapTuple(_check_block)
            )
        )


def _check_block(block: tuple[str, int], packed: Iterable[bytes]) -> None:
    if not any(list(unpack_refs(joined)) for joined in packed):
        raise ValueError(f"block {block} has no references")


def make_links(folder: pathlib.Path, count: int) -> None:
    """Makes `count` hard links to tiny PNGs, in class folders."""
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(buffer, "png")
    for number in range(_CLASSES):
        (folder / f"class_{number:02d}").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / f"class_{number % _CLASSES:02d}" / f"{number:09d}.png"
        if number % _LINKS_PER_FILE == 0:
            path.write_bytes(buffer.getvalue())
            target = path
        else:
            os.link(target, path)


if __name__ == "__main__":
    main()
