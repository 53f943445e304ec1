"""The first blocks, converted while this process still imports Beam and builds the pipeline."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict

from beam_pipelines.planning import BuildPlan
from beam_pipelines.resuming import forget_taken_parts
from transforms.blocks import convert_block
from transforms.listing import read_listing
from transforms.ordering import BlockKey, assign_block
from transforms.pool import shared_pool
from transforms.values import pack_refs

# Of more samples, finding those of the first blocks would take longer than it gains.
_MOST_SAMPLES = 100_000
# Work for the second or so that the pipeline takes to hand on blocks itself, even if files are only passed through.
_SAMPLES_PER_PROCESS = 5_000


def begin_blocks(plan: BuildPlan, *, processes: int) -> None:
    """Starts the processes and hands them the first blocks, which the pipeline takes from there.

    It waits for nothing.

    Args:
      plan: the build.
      processes: of this machine that do the work.
    """
    pool = shared_pool(processes)
    pool.start("transforms.blocks", "transforms.samples")
    samples = sum(plan.publication.listed.values())
    if samples > _MOST_SAMPLES:
        return
    forget_taken_parts(plan, processes)
    every = ((split, number) for split, blocks in plan.blocks.items() for number in range(blocks))
    enough = -(-_SAMPLES_PER_PROCESS * processes * sum(plan.blocks.values()) // samples)
    first = set(itertools.islice(every, enough))
    refs: defaultdict[BlockKey, list[bytes]] = defaultdict(list)
    for chunk in plan.chunks:
        for packed in read_listing(chunk):
            key = assign_block(packed, seed=plan.spec.seed, blocks=plan.blocks)
            if key in first:
                refs[key].append(packed)
    function = functools.partial(convert_block, plan=plan.block_plan, convert=plan.convert)
    for key, packed_refs in refs.items():
        pool.begin(key, function, (key, [pack_refs(packed_refs)]))
