"""What a core checks in a second when it verifies a dataset: photos of 400x300, stored with a shorter side of 256.

    python benchmarks/verify_rate.py                         2,000 photos, 5 rounds

Takes the processor time of the checks of all shards in this process, the least of the rounds; a cluster's workers run
the same function.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time

from figures import RESULTS, write_figures
from make_photos import write_photos

import beam_tfrecords
from beam_tfrecords.transforms.verifying.checks import ShardCheck


def main() -> None:
    """Measures the rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write_photos(root / "photos", count=arguments.count, sizes=((400, 300),), seed=arguments.seed)
        dataset = beam_tfrecords.build(input=root / "photos", output=root / "out", image_size=256, report=False)
        check = ShardCheck.of(dataset)
        seconds = []
        for _ in range(arguments.rounds):
            start = time.process_time()
            findings = [finding for shard in dataset.shards for finding in check(shard)]
            seconds.append(time.process_time() - start)
            if findings:
                raise RuntimeError(str(findings[0]))
        size = sum(shard.bytes for shard in dataset.shards)
    print(f"{dataset.num_records / min(seconds):,.0f} records and {size / min(seconds) / 1e6:.0f} MB a second")
    write_figures(
        arguments.results / f"verify_{arguments.count}.json",
        script=__file__,
        rounds=arguments.rounds,
        seed=arguments.seed,
        records=dataset.num_records,
        bytes=size,
        seconds=seconds,
    )


if __name__ == "__main__":
    main()
