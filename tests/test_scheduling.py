"""Modules that load much run in the first process, and no module loads TensorFlow while tests are collected."""

from __future__ import annotations

import re
from types import SimpleNamespace

from tests.scheduling import LONG, ROOT, ModuleScheduling, loads_much

MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in ROOT.glob("tests/**/test_*.py")
    if "integration" not in path.relative_to(ROOT).parts
)
LOADS = re.compile(
    r"^(?:import tensorflow|from tensorflow|from beam_tfrecords import .*\bload\b|from beam_tfrecords.reading.tf_)",
    re.M,
)


def test_no_module_imports_tensorflow_when_it_is_collected():
    assert [module for module in MODULES if LOADS.search((ROOT / module).read_text())] == []


class Process:
    """A process that runs a test of each module that it is given."""

    def __init__(self, name: str) -> None:
        self.gateway, self.shutting_down = SimpleNamespace(id=name), False
        self.waiting: list[int] = []
        self.ran: list[str] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.waiting += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def test_long_modules_are_there():
    assert set(LONG) <= set(MODULES)


def test_modules_that_load_much_run_in_the_first_process():
    option = SimpleNamespace(loadscopereorder=True, debug=False)
    scheduling = ModuleScheduling(SimpleNamespace(option=option, getvalue=lambda _: ["3*popen"]))
    processes = [Process(f"gw{number}") for number in range(3)]
    for process in processes:
        scheduling.add_node(process)
        scheduling.add_node_collection(process, [f"{module}::test" for module in MODULES])
    scheduling.schedule()
    while any(process.waiting for process in processes):
        for process in processes:
            if process.waiting:
                number = process.waiting.pop(0)
                process.ran.append(MODULES[number])
                scheduling.mark_test_complete(process, number)
    first, *others = (process.ran for process in processes)
    assert sorted([*first, *others[0], *others[1]]) == MODULES
    assert not any(map(loads_much, [*others[0], *others[1]]))
    assert loads_much(first[0])
