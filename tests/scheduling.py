"""Which test module runs in which process."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[1]
# What they import: TensorFlow, and the syntax trees of the package.
_MUCH = re.compile(r"^from tests import tensorflow|^from tests\.(?:tensorflow|package_code) import", re.MULTILINE)


@functools.cache
def loads_much(module: str) -> bool:
    """Whether a test module, a path from the root, needs what takes seconds to load in each process."""
    return bool(_MUCH.search((ROOT / module).read_text(encoding="utf-8")))


# These take 3 to 15 s for few tests, most of it waiting for other processes, while mypy runs beside them. The others
# follow by their number of tests, so that the last ones are short.
LONG = (
    "tests/transforms/processes/test_worker.py",
    "tests/beam_tfrecords/storage/test_web.py",
    "tests/beam_pipelines/runners/test_forking.py",
    "tests/transforms/images/test_golden.py",
    "tests/beam_pipelines/test_hostile.py",
    "tests/beam_pipelines/test_killed_builds.py",
    "tests/transforms/processes/test_output.py",
    "tests/beam_pipelines/test_web_images.py",
    "tests/transforms/processes/test_fork_server.py",
    "tests/transforms/blocks/test_fetching.py",
    "tests/transforms/blocks/test_blocks.py",
    "tests/beam_pipelines/test_imports.py",
    "tests/beam_pipelines/test_convert_command_line.py",
    "tests/beam_pipelines/test_status.py",
    "tests/beam_pipelines/test_power_cuts.py",
    "tests/transforms/processes/test_isolation.py",
    "tests/beam_pipelines/test_listed_in_parts.py",
    "tests/transforms/processes/test_map_in_processes.py",
    "tests/beam_pipelines/runners/test_jobs.py",
    "tests/beam_pipelines/test_sample_transforms.py",
    "tests/meanings/test_meanings.py",
    "tests/transforms/images/test_corpus.py",
)


class ModuleScheduling(LoadFileScheduling):
    """Runs the modules that load much in the first process, and in the others only when nothing else is left."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        is_first = node is self.nodes[0]
        queue = sorted(self.workqueue, key=lambda module: module not in LONG)
        wanted = next((module for module in queue if loads_much(module) is is_first), None)
        if wanted is not None:
            self.workqueue.move_to_end(wanted, last=False)
        super()._assign_work_unit(node)
