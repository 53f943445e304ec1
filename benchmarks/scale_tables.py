"""The tables of docs/scale.md, from what `scale_plan.py` planned and `million.py` measured: (head, rows) of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
Table: TypeAlias = tuple[Iterable[str], Iterable[Iterable[str]]]
# Stages of the project's own names.
_OWN = frozenset(
    [
        "IndexContainers",
        "ListSource",
        "ConvertBlocks",
        "FindDuplicates",
        "PlanShards",
        "ComposeShards",
        "CollectFiles",
        "PublishDataset",
    ]
)
# What is done by one process, and why it takes no longer.
_SERIAL = {
    "list the first million": "16 requests at once",
    "cut the bucket": "it looks for beginnings that more than a page of names share",
    "read the checkpoints": "one for each part of the bucket",
    "move the listing": "16 files at once",
    "PublishDataset": "the lists of failures and changes are joined by range of 1,024 blocks first",
    "clean-up of .build/": "eight batches are deleted at once; with `--no_wait` the workers do it",
}


def _power(samples: int) -> str:
    return f"10^{round(math.log10(samples))}"


def _number(value: int) -> str:
    return f"{value:,}" if value else ""


def _by_samples(title: str, results: Row, rows: Mapping[str, Callable[[Row], str]]) -> Table:
    plans = results["plans"]
    head = [title, *(_power(one["samples"]) for one in plans)]
    return head, ([what, *map(cell, plans)] for what, cell in rows.items())


def totals(results: Row) -> Table:
    """What builds ask for in all."""
    rows: dict[str, Callable[[Row], str]] = {
        "blocks, parts": lambda one: f"{one['blocks']:,}; {one['parts']:,}",
        "shards, bytes in them": lambda one: f"{one['shards']:,}; {one['shard_bytes'] / 1e12:,.2g} TB",
        "list of the shards": lambda one: f"{one['list_bytes'] / 1e6:,.0f} MB",
        "shuffled": lambda one: f"{one['shuffled'] / 1e9:,.0f} GB",
        "requests to the store and shuffle": lambda one: f"${one['dollars']:,.0f}",
        f"conversion at {results['rate']:.0f} images a second and core": lambda one: (
            f"{one['core_hours']:,.0f} core hours, ${one['core_dollars']:,.0f}"
        ),
        "soft delete of the parts, if it is on": lambda one: f"${one['soft_delete_dollars']:,.0f}",
        "**one process, before and after the work of the others**": lambda one: f"**{one['serial_hours']:.2f} h**",
    }
    return _by_samples("", results, rows)


def stages(results: Row) -> Table:
    """The stages of the largest build."""
    head = ["stage", "elements", "GB shuffled", "largest group", "objects", "writes (class A)", "reads (class B)", "$"]
    rows = []
    for stage in results["plans"][-1]["stages"]:
        name = stage["name"]
        row = [f"`{name}`" if name in _OWN else name, _number(stage["elements"])]
        row += [f"{stage['shuffled'] / 1e9:,.1f}" if stage["shuffled"] else ""]
        row += [_number(stage[what]) for what in ("largest", "objects", "writes", "reads")]
        rows.append([*row, f"{stage['dollars']:,.2f}" if stage["dollars"] >= 0.005 else ""])
    return head, rows


def serial(results: Row) -> Table:
    """What one process does, the longest first."""
    found = sorted(results["plans"][-1]["stages"], key=lambda stage: -stage["serial"])
    rows = [[one["name"], f"{one['serial'] / 60:,.1f}", _SERIAL[one["name"]]] for one in found if one["serial"]]
    return [f"at {_power(results['plans'][-1]['samples'])}", "minutes", "because"], rows


def clock(results: Row) -> Table:
    """How long the conversion takes."""
    head = [
        "images, workers",
        "all alike",
        "who is done takes the next",
        "blocks assigned before",
        "more if GCS is cold",
    ]
    rows = []
    for one in results["plans"]:
        for found in one["clocks"]:
            hours = (f"{found[name]:.2f} h" for name in ("even", "dynamic", "fixed", "ramp"))
            rows.append([f"{_power(one['samples'])}, {found['workers']:,}", *hours])
    return head, rows


def rates(results: Row) -> Table:
    """Requests a second, against what buckets take."""
    gcs, s3 = results["gcs"], results["s3"]
    rows = []
    for found in results["plans"][-1]["clocks"]:
        # Reads and writes have limits of their own.
        doublings = max(0, *(math.ceil(math.log2(found[kind] / gcs[kind])) for kind in gcs))
        prefixes = max(math.ceil(found[kind] / s3[kind]) for kind in s3)
        asked = (f"{found[kind]:,.0f}" for kind in ("reads", "writes"))
        rows.append([f"{found['workers']:,} workers", *asked, f"{20 * doublings} minutes", str(prefixes)])
    return [
        "",
        "reads a second",
        "writes a second",
        "until GCS has doubled so far",
        "prefixes of S3 that take them",
    ], rows


def copies(results: Row) -> Table:
    """What joining parts asks of S3."""
    rows: dict[str, Callable[[Row], str]] = {
        "`UploadPartCopy`, within the store": lambda one: f"{one['copies']['copied']:,}",
        "`UploadPart`, through a worker": lambda one: f"{one['copies']['uploaded']:,}",
        "uploads begun, and as many completed": lambda one: f"{one['copies']['begun']:,}",
        "`HeadObject` of parts": lambda one: f"{one['copies']['looked_at']:,}",
        "`GetObject` of their pieces": lambda one: f"{one['copies']['read']:,}",
        "in all": lambda one: f"${one['copy_dollars']:,.2f}",
    }
    plans = results["plans"]
    return ["S3", *(_power(one["samples"]) for one in plans)], (
        [what, *map(cell, plans)] for what, cell in rows.items()
    )


def flink(results: Row) -> Table:
    """What a Flink cluster for the largest build needs."""
    head = ["slots", "task managers", "memory of each", "its Python workers", "disk for the shuffle", "disk for parts"]
    rows = []
    for found in results["plans"][-1]["machines"]:
        sizes = (f"{found[name]:.1f} GB" for name in ("memory_gb", "python_gb", "shuffle_gb", "parts_gb"))
        rows.append([f"{found['workers']:,}", f"{found['task_managers']:,}", *sizes])
    return head, rows


def million(results: Row) -> Table:
    """What a build asked for, beside what was predicted."""
    measured, predicted = results["measured"], results["predicted"]
    requests = results["samples"][-1]["requests"]
    reads = sum(number for name, number in requests.items() if name.startswith(("Get", "Head")))
    # Lists have the price of writes; deleting is free.
    writes = sum(number for name, number in requests.items() if not name.startswith(("Get", "Head", "Delete")))
    rows = [
        ["blocks", f"{measured['blocks']:,}", f"{predicted['blocks']:,}"],
        ["parts", f"{measured['parts']:,}", f"{predicted['parts']:,}"],
        ["shards", f"{measured['shards']:,}", f"{predicted['shards']:,}"],
        ["requests that read, for an image", *(f"{one / results['count']:.3f}" for one in (reads, predicted["reads"]))],
        ["others, for an image", *(f"{one / results['count']:.3f}" for one in (writes, predicted["writes"]))],
        ["MB that tasks sent", *(f"{one / 1e6:,.0f}" for one in (measured["sent_bytes"], predicted["sent"]))],
        ["images a second", f"{results['count'] / measured['seconds']:,.0f}", ""],
    ]
    return [f"{results['count']:,} images of {results['source_bytes']:,} bytes", "measured", "planned"], rows


def million_over_time(results: Row) -> Table:
    """The largest memory by role in each fifth of a build, and its requests."""
    samples = results["samples"]
    length = samples[-1]["seconds"]
    rows = []
    before = 0
    for part in range(1, 6):
        inside = [one for one in samples if (part - 1) / 5 <= one["seconds"] / length <= part / 5]
        if not inside:
            continue
        sizes = (max(one["memory"].get(role, 0) for one in inside) for role in _ROLES)
        asked = sum(inside[-1]["requests"].values())
        row = [f"to {part * length / 5:,.0f} s", *(f"{size:,.0f}" for size in sizes)]
        rows.append([*row, f"{asked - before:,}", f"{max(one['blocks'] for one in inside):,}"])
        before = asked
    return ["MB at most", *_ROLES.values(), "requests", "blocks done"], rows


def readers(results: Row) -> Table:
    """What a reader process of very many shards takes."""
    names = {"listed": "in `manifest.json`, as in format 2", "file": "in `shards.parquet`"}
    rows = [
        [
            f"{names[form]}, {one['processes']} processes",
            f"{one['bytes'] / 1e6:,.0f} MB",
            f"{one['peak'] / 1e6:,.0f} MB",
            f"{one['most_processor']:.2f} s",
        ]
        for form, one in results["forms"].items()
    ]
    return ["the shards are listed", "list", "memory", "processor time"], rows


def verifying(results: Row) -> Table:
    """What a core checks, and what a billion photos take."""
    seconds, count, size = min(results["seconds"]), results["records"], results["bytes"]
    rows = []
    for samples in (10**7, 10**8, 10**9):
        hours = samples * seconds / count / 3600
        rows.append(
            [
                _power(samples),
                f"{count / seconds:,.0f}; {size / seconds / 1e6:,.0f} MB",
                f"{hours:,.1f}",
                f"{hours / 100:,.2f}",
            ]
        )
    return ["`verify`", "records a second and core", "core hours", "with `--sample=0.01`"], rows


# Roles of processes, as `million.py` tells them apart.
_ROLES = {"workers": "Python workers", "JVMs": "JVMs", "launcher": "launcher", "store": "store"}
TABLES: dict[str, Callable[[Row], Table]] = {
    "scale_totals": totals,
    "scale_stages": stages,
    "scale_serial": serial,
    "scale_clock": clock,
    "scale_rates": rates,
    "scale_copies": copies,
    "scale_flink": flink,
    "scale_readers": readers,
    "scale_verify": verifying,
    "million": million,
    "million_over_time": million_over_time,
}
