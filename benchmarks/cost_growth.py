"""Converts 10, N and 4 N photos in turn and prints what four times the photos cost, start-up aside.

    python benchmarks/cost_growth.py                 N = 10,000, 5 rounds

What ten photos take is the start-up. Where costs grow as the photos do, four times of them take four times
as long; more than that would be something that does not scale.
"""

from __future__ import annotations

import argparse
import statistics

from run import prepare_photos, run_once

_SIZE = "500x375"
_FEW = 10


def main() -> None:
    """Prints each round and the medians."""
    parser = argparse.ArgumentParser(description="Measures how the time grows with the photos.")
    parser.add_argument("--count", type=int, default=10_000, help="of photos, and four times as many")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    counts = (_FEW, arguments.count, 4 * arguments.count)
    folders = {count: prepare_photos(_SIZE, count) for count in counts}
    for folder in folders.values():
        for path in folder.glob("*/*.jpg"):
            path.read_bytes()  # into the page cache, for all alike
    growths, start_ups = [], []
    for number in range(arguments.rounds):
        few, some, many = (
            run_once(
                "beam_tfrecords", photos=folders[count], count=count, round_number=number, timed=True, cold=False
            ).seconds
            for count in counts
        )
        start_ups.append(few)
        growths.append((many - few) / (some - few))
        print(f"round {number + 1}: {few:.2f} s, {some:.2f} s, {many:.2f} s; {growths[-1]:.2f} times as long")
    print(
        f"medians: start-up {statistics.median(start_ups):.2f} s; four times the photos take "
        f"{statistics.median(growths):.2f} times as long"
    )


if __name__ == "__main__":
    main()
