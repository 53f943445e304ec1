"""Lists, orders and groups references, and does nothing else: what a huge dataset costs before its first image.

Run it under `peak_memory.py`. With `--links=N` it first makes N hard links to a tiny image.
"""

from __future__ import annotations

import argparse
import io
import os
import pathlib
import tempfile
import time
from collections.abc import Iterable

import apache_beam as beam
from PIL import Image

from beam_pipelines.checking import open_spec_source
from beam_pipelines.execution.runners import Execution, find_runner
from beam_pipelines.planning import BuildPlan
from beam_pipelines.preparing import hold_output, prepare_build
from beam_pipelines.settings.definitions import read_build_spec
from transforms.listing.stage import AssignOrder, ListSource
from transforms.refs import split_refs

_LINKS_PER_FILE = 10_000
_CLASSES = 100


def main() -> None:
    """Prints how long each step took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="image folder")
    parser.add_argument("--links", type=int, default=0, help="make so many hard links in it first")
    arguments = parser.parse_args()
    if arguments.links:
        make_links(arguments.folder, arguments.links)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as output:
        words = {"input": str(arguments.folder), "output": f"{output}/out", "image_encoding": "keep", "check": "header"}
        execution = Execution.prepare(find_runner([]), verbose=False)
        spec, source = open_spec_source(read_build_spec(words))
        with hold_output(spec, execution.runner) as held:
            plan = prepare_build(spec, source, execution, output=held)
        assert isinstance(plan, BuildPlan)
        listed = time.monotonic()
        print(f"listed {sum(plan.publication.listed.values()):,} references in {listed - start:.1f} s")
        execution.run(
            lambda root: (
                root
                | "ListSource" >> ListSource(plan.block_plan.folder)
                | "AssignOrder" >> AssignOrder(seed=plan.spec.seed, blocks=plan.blocks)
                | "GroupByKey" >> beam.GroupByKey()
                | "Count" >> beam.MapTuple(_check_block)
            )
        )
        print(f"ordered and grouped into {sum(plan.blocks.values()):,} blocks in {time.monotonic() - listed:.1f} s")


def _check_block(block: tuple[str, int], packed: Iterable[bytes]) -> None:
    if not any(list(split_refs(joined)) for joined in packed):
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
