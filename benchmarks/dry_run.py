"""How long `convert --dry_run` takes for many references, and how much memory.

With `--links=N` it first makes N hard links to a tiny image.
"""

from __future__ import annotations

import argparse
import pathlib
import resource
import subprocess
import sys
import time

from group_references import make_links


def main() -> None:
    """Prints what the dry run said, its time, processor time and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="image folder")
    parser.add_argument("--links", type=int, default=0, help="make so many hard links in it first")
    arguments = parser.parse_args()
    if arguments.links:
        make_links(arguments.folder, arguments.links)
    program = pathlib.Path(sys.executable).with_name("beam-tfrecords")
    flags = [f"--input={arguments.folder}", f"--output={arguments.folder}.out", "--image_size=256", "--dry_run"]
    start = time.monotonic()
    subprocess.run([program, "convert", *flags, "--splits=train=0.9,validation=0.1"], check=True)
    seconds = time.monotonic() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(f"{seconds:.1f} s, {cpu:.1f} s of a processor, {used.ru_maxrss / 1000:.0f} MB")


if __name__ == "__main__":
    main()
