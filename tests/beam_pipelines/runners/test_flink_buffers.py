"""What Flink asks for before it starts the tasks of a build, by arithmetic, and the sizes that the pages promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from beam_tfrecords.beam_pipelines.runners.flink_buffers import BUFFER_BYTES, FlinkBuffers
from beam_tfrecords.beam_pipelines.runners.flink_cluster import FlinkCluster
from tests.refusals import refuses

PROJECT = Path(__file__).parents[3]
BUILDS = yaml.safe_load((PROJECT / "deploy/flink/builds.yaml").read_text())
SHIPPED = FlinkBuffers(
    BUILDS["taskmanager.network.sort-shuffle.min-buffers"],
    BUILDS["taskmanager.network.memory.read-buffer.required-per-gate.max"],
)


def buffers_of_slot(process_mib: int, slots: int) -> int:
    """Network buffers of each slot, by Flink's memory model: the process without its overhead and metaspace."""
    metaspace = int(BUILDS["taskmanager.memory.jvm-metaspace.size"].removesuffix("m"))
    overhead = min(max(0.1 * process_mib, 192), 1024)
    network = BUILDS["taskmanager.memory.network.fraction"] * (process_mib - overhead - metaspace)
    return int(network * 2**20) // BUFFER_BYTES // slots


def test_the_memory_model_is_that_of_a_cluster():
    # What the task managers of a cluster of local-cluster.sh said: `--memory=1600m --slots=2`, and 16 slots.
    assert buffers_of_slot(1600, 1) == pytest.approx(6553, abs=2)


@pytest.mark.parametrize(
    ("sort", "gate", "parallelism", "count"),
    [
        # Required by the tasks of a job's plan, summed up by Flink's rules.
        (64, None, 1, 345), (64, None, 2, 351), (64, None, 4, 363), (64, None, 64, 1543), (64, None, 512, 11747),
        (64, 100, 64, 1282), (64, 100, 512, 3522), (512, None, 1, 2585),
    ],
)  # fmt: skip
def test_the_need_of_a_slot_grows_with_the_parallelism(sort, gate, parallelism, count):
    assert FlinkBuffers(sort, gate).count(parallelism) == count


def test_the_page_has_the_needs_and_task_managers_that_are_large_enough():
    page = (PROJECT / "docs/clusters.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) \| ([\d,]+) \| (\d+) MiB \| ([\d,]+)m[^|]* \| ([\d,]+) \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for row in rows:
        slots, needed, size, manager, default = (int(cell.replace(",", "")) for cell in row)
        assert needed == SHIPPED.count(slots)
        assert size == -(-needed * BUFFER_BYTES // 2**20)
        assert default == FlinkBuffers().count(slots)
        assert buffers_of_slot(manager, 4) >= needed


def test_the_cluster_of_kubernetes_has_buffers_for_512_slots():
    spec = yaml.safe_load((PROJECT / "deploy/kubernetes/flink.yaml").read_text())["spec"]
    memory = int(spec["taskManager"]["resource"]["memory"].removesuffix("m"))
    slots = int(spec["flinkConfiguration"]["taskmanager.numberOfTaskSlots"])
    assert buffers_of_slot(memory, slots) >= SHIPPED.count(512)


def cluster(buffers: int, required: FlinkBuffers) -> FlinkCluster:
    return FlinkCluster("http://host:8081", "1.19.3", 512, 512, 4, (), buffers, required)


@pytest.mark.parametrize("required", [SHIPPED, FlinkBuffers(), FlinkBuffers(64)])
@pytest.mark.parametrize("parallelism", [1, 8, 512])
def test_a_cluster_is_refused_by_the_parallelism_of_the_job(required, parallelism):
    needed = required.count(parallelism)
    cluster(needed, required).check_buffers("`flink_master=host:8081`", parallelism=parallelism)
    with refuses("too_few_network_buffers", "flink_master", says=[f"needs {needed:,}"]):
        cluster(needed - 1, required).check_buffers("`flink_master=host:8081`", parallelism=parallelism)


def test_what_a_refusal_advises_is_enough():
    with pytest.raises(Exception, match=r"network\.min") as raised:
        cluster(400, FlinkBuffers(64)).check_buffers("`flink_master=host:8081`", parallelism=512)
    size = int(re.search(r"network\.min: (\d+)m", str(raised.value))[1])
    assert size * 2**20 // BUFFER_BYTES // 4 >= SHIPPED.count(512)
    settings = dict(re.findall(r"`(taskmanager\.network[^:`]*): (\d+)`", str(raised.value)))
    assert FlinkBuffers(*map(int, settings.values())) == SHIPPED
