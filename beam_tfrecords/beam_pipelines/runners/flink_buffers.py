"""The network buffers that Flink needs to start the tasks of a build.

`InputGateSpecUtils` and `NettyShuffleUtils` of Flink 1.19 compute how many buffers must be free before a task starts.
In a job with P slots, an input that is exchanged between all slots requires 2P + 1 buffers, unless a setting limits it.
A pipelined output of that kind requires P + 1. A sorted output, which is written completely before it is read, requires
a fixed number.
"""

from __future__ import annotations

import dataclasses

BUFFER_BYTES = 32 << 10
# Flink's defaults: buffers for a sorted output; upper limit of an input that reads sorted outputs.
SORT_BUFFERS, GATE_BUFFERS = 512, 1000


@dataclasses.dataclass(frozen=True)
class _Tasks:
    """The tasks that run in one slot at the same time, counted in the plan of a build with all stages.

    Attributes:
      inputs: pipelined inputs that are exchanged between all slots.
      sorted_inputs: inputs that are exchanged between all slots, from sorted outputs.
      outputs: pipelined outputs that are exchanged between all slots.
      sorted_outputs: outputs that are written completely before they are read.
      others: buffers of the inputs and outputs that stay in a slot.
    """

    inputs: int
    sorted_inputs: int
    outputs: int
    sorted_outputs: int
    others: int


# From `ListSource` to `ConvertBlocks`, and from `PlanShards` to `PublishDataset`; no other tasks need more.
_TASKS = (_Tasks(2, 0, 2, 5, 15), _Tasks(5, 4, 5, 0, 57))


@dataclasses.dataclass(frozen=True)
class FlinkBuffers:
    """The settings of a cluster that decide how many buffers a task requires.

    Attributes:
      sort_buffers: `taskmanager.network.sort-shuffle.min-buffers`.
      gate_buffers: `taskmanager.network.memory.read-buffer.required-per-gate.max`; None for Flink's default, which
        limits only inputs from sorted outputs.
    """

    sort_buffers: int = SORT_BUFFERS
    gate_buffers: int | None = None

    def count(self, parallelism: int) -> int:
        """Returns the buffers that the tasks of a build require in each slot.

        Args:
          parallelism: number of slots of the job.
        """
        gate = 2 * parallelism + 1
        passing = gate if self.gate_buffers is None else min(gate, self.gate_buffers)
        from_sorted = min(gate, GATE_BUFFERS if self.gate_buffers is None else self.gate_buffers)
        return max(
            tasks.inputs * passing
            + tasks.sorted_inputs * from_sorted
            + tasks.outputs * (parallelism + 1)
            + tasks.sorted_outputs * self.sort_buffers
            + tasks.others
            for tasks in _TASKS
        )
