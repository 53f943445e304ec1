"""How much of the local rate is left where every request to the store takes 20 ms.

    make test-integration                                   installs the stores
    .venv-integration/bin/python benchmarks/latency.py      2,000 photos like ImageNet's, 5 rounds, gs:// and s3://

Each round builds from disk to disk, and from bucket to bucket of each store. The stores, emulators behind a proxy that
waits before it passes a request on, have the last core for themselves, and all builds the others: a real store takes
no time from the machine that asks it. Wall time includes start-up. The figures go to --results.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from figures import write_figures
from run import photo_options, photos_title, prepare_photos

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from tests.integration import buckets

_FLAGS = ["--name=photos", "--image_size=256"]


def build(inputs: str, output: str, *, cores: set[int]) -> float:
    """Runs a build on some cores; returns seconds, start-up included."""
    begin = time.monotonic()
    command = [str(buckets.PROGRAM), "convert", f"--input={inputs}", f"--output={output}", *_FLAGS, "--quiet"]
    subprocess.run(command, check=True, preexec_fn=functools.partial(os.sched_setaffinity, 0, cores))
    return time.monotonic() - begin


def main() -> None:
    """Runs the rounds and prints the medians."""
    parser = photo_options(__doc__ or "", count=2000)
    parser.add_argument("--latency", type=float, default=0.02, help="seconds of a request")
    parser.add_argument("--stores", default="gs,s3")
    arguments = parser.parse_args()
    *cores, own = sorted(os.sched_getaffinity(0))
    stores = arguments.stores.split(",")
    seconds: dict[str, list[float]] = {name: [] for name in ("disk", *stores)}
    requests: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        root = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        photos = prepare_photos(arguments)
        count = arguments.count
        os.sched_setaffinity(0, {own})
        # The other emulator of S3 takes 4 ms for a request, more than a core converts a photo in.
        servers = stack.enter_context(buckets.services(root, *stores, s3_program="versitygw"))
        for store in stores:
            buckets.upload(photos, f"{store}://photos")
            servers[store].latency = arguments.latency
        for number in range(arguments.rounds):
            shutil.rmtree(root / "out", ignore_errors=True)
            seconds["disk"].append(build(str(photos), str(root / "out"), cores=set(cores)))
            for store in stores:
                servers[store].requests.clear()
                taken = build(f"{store}://photos", f"{store}://datasets/{number}", cores=set(cores))
                seconds[store].append(taken)
                requests[store] = len(servers[store].requests)
            shown = ", ".join(f"{name} {times[-1]:.2f} s" for name, times in seconds.items())
            print(f"round {number + 1}: {shown}", flush=True)
    print(f"{count:,} photos of {photos_title(arguments)} on {len(cores)} cores, {arguments.latency:g} s a request:")
    for name, times in seconds.items():
        # Within a round, so that a machine that is slower for a while is so for both.
        share = statistics.median(disk / one for disk, one in zip(seconds["disk"], times, strict=True))
        asked = f", {requests[name] / count:.2f} requests an image" if name in requests else ""
        rate = statistics.median(count / one for one in times)
        print(f"{name:5} {rate:5.0f} images/s, {share:.2f} of the local rate{asked}")

    write_figures(
        arguments.results / f"latency_{count}.json",
        script=__file__,
        rounds=arguments.rounds,
        size=photos_title(arguments),
        count=count,
        cores=len(cores),
        latency=arguments.latency,
        seconds=seconds,
        requests=requests,
    )


if __name__ == "__main__":
    main()
