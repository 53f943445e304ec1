"""What references cost: listed, ordered and grouped, and then through shards to a published dataset.

    python benchmarks/group_references.py                       a million links to tiny images
    python benchmarks/group_references.py --count=10000000      half an hour

The images are tiny and are kept as they are, so nearly all of a build is what a sample costs beside its bytes. The
shards are small, so that there are as many as of large photos. Seconds, processor time and peak memory of both go to
--results.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterable

import apache_beam as beam
import numpy as np
from figures import RESULTS, write_figures
from peak_memory import measure
from PIL import Image

from beam_tfrecords.beam_pipelines.build.listing.executors import WorkerExecutor
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.output.lock import lock_output
from beam_tfrecords.beam_pipelines.build.output.previous import open_previous
from beam_tfrecords.beam_pipelines.build.prepare import prepare_build
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.transforms.listing.stage import AssignOrder, ListSource
from beam_tfrecords.transforms.refs.ref_columns import unpack_refs

_COMMAND = pathlib.Path(sys.executable).with_name("beam-tfrecords")
_LINKS_PER_FILE = 10_000
_CLASSES = 100
_SHARD_SIZE = "1MB"


def main() -> None:
    """Measures a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000, help="of references")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    parser.add_argument("--place", help="folder for the links and the dataset (the system's for temporary files)")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        group_references(arguments.folder, arguments.count)
        return
    with tempfile.TemporaryDirectory(dir=arguments.place) as name:
        folder = pathlib.Path(name)
        make_links(folder / "in", arguments.count)
        words = [f"--folder={folder / 'in'}", f"--count={arguments.count}"]
        steps = {"grouped": _measure([sys.executable, __file__, *words])}
        request = [f"--input={folder / 'in'}", f"--output={folder / 'out'}", "--image_encoding=keep", "--check=header"]
        steps["published"] = _measure([str(_COMMAND), "convert", *request, f"--shard_size={_SHARD_SIZE}", "--quiet"])
        manifest = json.loads((folder / "out" / "manifest.json").read_text())
        if (written := sum(shard["records"] for shard in manifest["shards"])) != arguments.count:
            raise RuntimeError(f"{written} records were published of {arguments.count} images")
    for name, step in steps.items():
        print(f"{name:10} {step['seconds']:.1f} s, {step['peak_bytes'] / 1e6:.0f} MB")
    write_figures(
        arguments.results / f"references_{arguments.count}.json",
        script=__file__,
        rounds=1,
        count=arguments.count,
        shards=len(manifest["shards"]),
        steps=steps,
    )


def _measure(command: list[str]) -> dict[str, float]:
    measured = measure(command)
    if measured.exit_code:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {measured.exit_code}")
    return {
        "seconds": measured.seconds,
        "processor_seconds": measured.processor_seconds,
        "peak_bytes": measured.peak_bytes,
    }


def group_references(folder: str, count: int) -> None:
    """Lists the images of a folder as a build does, orders and groups them.

    Raises:
      RuntimeError: the folder has another number of images.
    """
    with tempfile.TemporaryDirectory() as output:
        words = {"input": folder, "output": f"{output}/out", "image_encoding": "keep", "check": "header"}
        execution = Execution.prepare(find_runner([]))
        spec, source = open_spec_source(read_build_spec(words))
        with lock_output(spec) as held, WorkerExecutor(execution, held, previous := open_previous(spec)) as executor:
            prepared = prepare_build(spec, source, executor, output=held, previous=previous)
        assert prepared is not None
        build, _ = prepared
        if (listed := sum(build.listed.values())) != count:
            raise RuntimeError(f"{listed} references were listed, and there are {count} images")
        execution.run(
            lambda root: (
                root
                | "ListSource" >> ListSource(build.folder)
                | "AssignOrder"
                >> AssignOrder(seed=build.spec.seed, blocks=build.blocks, processes=execution.runner.processes)
                | "GroupByKey" >> beam.GroupByKey()
                | "Count" >> beam.MapTuple(_check_block)
            )
        )


def _check_block(block: tuple[str, int], packed: Iterable[bytes]) -> None:
    if not any(list(unpack_refs(joined)) for joined in packed):
        raise ValueError(f"block {block} has no references")


def make_links(folder: pathlib.Path, count: int) -> None:
    """Makes `count` hard links to tiny PNGs, ten thousand to each, in class folders."""
    for number in range(_CLASSES):
        (folder / f"class_{number:02d}").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / f"class_{number % _CLASSES:02d}" / f"{number:09d}.png"
        if number % _LINKS_PER_FILE == 0:
            # Each file has another colour.
            colour = (*divmod(number // _LINKS_PER_FILE, 256), 0)
            Image.fromarray(np.full((4, 4, 3), colour, np.uint8)).save(path)
            target = path
        else:
            os.link(target, path)


if __name__ == "__main__":
    main()
