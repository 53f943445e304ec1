"""Memory of the processes of a build on Flink, Spark and Prism: 20,000 images and 300,000 rows, and a tenth of each.

    python benchmarks/cluster_memory.py                      all: a quarter of an hour
    python benchmarks/cluster_memory.py --runners=flink --samples=samples.json

Once a second the memory of all processes of a build is looked at, with shared pages counted once. Printed are the
peaks in MB: of the Python workers together, of the largest of them in the first and in the second half of the time, of
the launcher, in which on Prism the runner's threads are, and of the JVMs, or Prism itself. Needs what
`tests/integration/install.sh` installs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator

import growth_inputs as inputs
from peak_memory import adopt_orphans, descendants, measure, memory_of

_PROJECT = pathlib.Path(__file__).resolve().parent.parent
_COMMAND = str(pathlib.Path(sys.executable).with_name("beam-tfrecords"))
_SCRIPT = str(_PROJECT / "deploy/flink/local-cluster.sh")
_PRISM = _PROJECT / ".cache/bin/prism"
_SECONDS = 1.0
_PORT = 18281
# Words of command lines of processes that are no worker.
_RUNNERS = (b"java", b"prism")


@dataclasses.dataclass(frozen=True)
class Case:
    """An input of two sizes.

    Attributes:
      what: it has, for the table.
      make: makes it in a folder; returns the flags of `convert`.
    """

    what: str
    sizes: tuple[int, int]
    make: Callable[[pathlib.Path, int], list[str]]


def _make_images(folder: pathlib.Path, count: int) -> list[str]:
    images = inputs.write_folder(folder / "images", inputs.noise_images(count))
    return [f"--input={images}", "--image_size=64", "--upscale"]


def _make_rows(folder: pathlib.Path, count: int) -> list[str]:
    path = inputs.write_rows(folder / "rows.parquet", inputs.keyed_rows(count))
    types = {"id": ("column.id", "bytes"), "label": ("label.name", "bytes"), "width": ("column.width", "int64")}
    layout = {name: {"field": field, "type": of} for name, (field, of) in types.items()}
    (folder / "spec.json").write_text(json.dumps({"layout": layout}))
    return [f"--input={path}", f"--spec={folder / 'spec.json'}", "--key_column=id", "--label_column=label"]


CASES = {
    "images": Case("images", (2_000, 20_000), _make_images),
    "rows": Case("rows of a Parquet file", (30_000, 300_000), _make_rows),
}


@contextlib.contextmanager
def _flink(folder: pathlib.Path) -> Iterator[list[str]]:
    # The programs of the cluster are sessions of their own.
    adopt_orphans()
    words = [f"--run-dir={folder / 'flink'}", f"--rest-port={_PORT}", f"--rpc-port={_PORT + 1}"]
    try:
        subprocess.run([_SCRIPT, "up", *words], check=True, stdout=subprocess.DEVNULL)
        yield ["--runner=FlinkRunner", f"--flink_master=127.0.0.1:{_PORT}"]
    finally:
        subprocess.run([_SCRIPT, "down", *words], check=True, stdout=subprocess.DEVNULL)


RUNNERS: dict[str, Callable[[pathlib.Path], contextlib.AbstractContextManager[list[str]]]] = {
    "flink": _flink,
    "spark": lambda _: contextlib.nullcontext(["--runner=SparkRunner", "--spark_master_url=local[2]"]),
    "prism": lambda _: contextlib.nullcontext(["--runner=PrismRunner", f"--prism_location={_PRISM}"]),
}


class Sampler:
    """Looks at the processes of a build.

    Attributes:
      samples: MB at each time: the Python workers together, the largest of them, the launcher, the runner.
    """

    def __init__(self) -> None:
        self.samples: list[dict[str, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_SECONDS):
            sizes: dict[str, list[int]] = {"workers": [], "launcher": [], "runner": []}
            for pid in descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                    sizes[_role_of(words)].append(memory_of(pid))
            row = {role: sum(found) / 1e6 for role, found in sizes.items()}
            self.samples.append(row | {"largest": max(sizes["workers"], default=0) / 1e6})


def _role_of(words: list[bytes]) -> str:
    if any(os.path.basename(words[0]).startswith(name) for name in _RUNNERS):
        return "runner"
    return "launcher" if os.fsencode(_COMMAND) in words[:2] and b"convert" in words else "workers"


def measure_build(runner: str, case: Case, size: int) -> list[dict[str, float]]:
    """Runs a build; returns the samples of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        words = case.make(folder, size)
        with RUNNERS[runner](folder) as where:
            command = [_COMMAND, "convert", *words, f"--output={folder / 'out'}", "--quiet", "--no_report", *where]
            with Sampler() as sampler:
                measured = measure(command, sample_memory=False, log=sys.stderr.buffer)
    if measured.exit_code:
        raise RuntimeError(f"{runner}, {size:,} {case.what}: exit code {measured.exit_code}")
    return sampler.samples


def _describe(samples: list[dict[str, float]]) -> str:
    half = len(samples) // 2
    peaks = {role: max(row[role] for row in samples) for role in ("workers", "launcher", "runner")}
    halves = [max((row["largest"] for row in part), default=0.0) for part in (samples[:half], samples[half:])]
    shown = "  ".join(f"{role} {size:,.0f}" for role, size in peaks.items())
    return f"{shown}  largest worker {halves[0]:,.0f}, {halves[1]:,.0f}"


def main() -> None:
    """Measures the chosen runners and cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runners", default=",".join(RUNNERS))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--samples", type=pathlib.Path, help="file for all samples")
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    for name in arguments.cases.split(","):
        case = CASES[name]
        for runner in arguments.runners.split(","):
            for size in case.sizes:
                samples = found[f"{runner} {name} {size}"] = measure_build(runner, case, size)
                print(f"{runner:6} {size:>8,} {case.what:23} {len(samples):4} s  {_describe(samples)}", flush=True)
                if arguments.samples:
                    arguments.samples.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
