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


# These take 5 to 15 s for few tests. The others follow by their number of tests, so that the last ones are short.
LONG = (
    "tests/transforms/images/test_golden.py",
    "tests/beam_pipelines/test_path_splits.py",
    "tests/beam_pipelines/test_status.py",
    "tests/beam_pipelines/test_imports.py",
    "tests/beam_pipelines/test_power_cuts.py",
    "tests/beam_pipelines/test_hostile.py",
    "tests/beam_pipelines/test_streams.py",
    "tests/beam_pipelines/test_convert_command_line.py",
    "tests/beam_pipelines/test_callers.py",
    "tests/beam_pipelines/runners/test_forking.py",
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
