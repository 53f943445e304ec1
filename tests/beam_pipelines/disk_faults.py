"""Builds with a look at one of their files that fails: a program, run with the preloaded library `disk_faults.c`.

Its words are a folder for its files, a kind of build, how many faults to try (0 for all) and a seed. It prints a line
for each fault: how the build with it ended, how the same command ended afterwards, and what was found wrong.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from tests.beam_pipelines.conftest import make_picture, save_picture
from tests.core.commands import Ran, run_command

FLAGS = ["--name=pets", "--image_size=8", "--max_failures=0.1", "--no_report", "--quiet"]
ERRNOS = (errno.EIO, errno.ESTALE, errno.EACCES)
# Another launch has other names.
_RANDOM = re.compile(r"\.tmp-|[0-9a-f]{16}|\.clock-|/202\d{5}T")
# Number of the error, "once" or "always", call, path.
Fault: TypeAlias = "tuple[int, str, str, str]"
KINDS = ("folder", "glob", "table", "overwrite", "versioned")


class Builds:
    """One kind of build, from the same beginning each time.

    Args:
      root: a new folder.
      kind: one of KINDS.
    """

    def __init__(self, root: Path, kind: str) -> None:
        self.kind, self.out, self.start = kind, root / "out", root / "start"
        pictures = root / "in"
        for number in range(4):
            save_picture(pictures / ("cat", "dog")[number % 2] / f"{number}.png", make_picture(number, 12, 12))
        self.flags = [*FLAGS, f"--output={self.out}"]
        source = pictures
        if kind == "glob":
            source = pictures / "*/*.png"
        elif kind == "table":
            # The second root has other pictures: a fault in the first must not be taken for "it is not there".
            for number in range(4, 6):
                save_picture(root / "other" / ("cat", "dog")[number % 2] / f"{number}.png", make_picture(9, 12, 12))
            rows = ["image,label", *(f"{('cat', 'dog')[number % 2]}/{number}.png,{number}" for number in range(6))]
            source = root / "rows.csv"
            source.write_text("\n".join(rows))
            self.flags += [f"--image_root={pictures}", f"--image_root={root / 'other'}"]
        self.flags.append(f"--input={source}")
        if kind == "overwrite":
            self.expect_done(run_command("convert", *self.flags, "--num_shards=4"))
            self.flags.append("--overwrite")
        elif kind == "versioned":
            self.flags.append("--versioned")
            self.expect_done(run_command("convert", *self.flags))
        if self.out.exists():
            shutil.copytree(self.out, self.start, symlinks=True)
        if kind == "versioned":
            save_picture(pictures / "cat/8.png", make_picture(5, 12, 12))
            save_picture(pictures / "dog/9.png", make_picture(6, 12, 12))

    def expect_done(self, ran: Ran) -> None:
        assert ran.code == 0, ran.err

    def reset(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        if self.start.exists():
            shutil.copytree(self.start, self.out, symlinks=True)

    def run(self) -> Ran:
        return run_command("convert", *self.flags)

    def published(self) -> dict[str, bytes]:
        """The shards that a reader finds, and the versions: how many there are."""
        folder, found = self.out, {}
        if self.kind == "versioned":
            found["versions"] = b"%d" % len(list(self.out.glob("2*/_SUCCESS")))
            folder = self.out / (self.out / "LATEST").read_text().strip()
        return found | {path.name: path.read_bytes() for path in sorted(folder.glob("*.tfrecord*"))}


def find_looks(builds: Builds, log: Path) -> list[tuple[str, str]]:
    """The calls and paths of a build that are the same in each."""
    builds.reset()
    log.touch()
    builds.expect_done(builds.run())
    looks = dict.fromkeys(tuple(line.split(" ", 1)) for line in log.read_text().splitlines())
    log.unlink()
    return [(call, path) for call, path in looks if not _RANDOM.search(Path(path).name)]


def evaluate(builds: Builds, expected: dict[str, bytes], plan: Path, fault: Fault) -> dict[str, object]:
    """Runs a build with a fault, and the same command without it."""
    code, times, call, path = fault
    builds.reset()
    plan.write_text(f"{code} {times} {call} {path}\n")
    try:
        ran = builds.run()
    except Exception as error:  # what the console script shows as a traceback
        ran = Ran(-1, "", f"{type(error).__name__}: {error}")
    finally:
        plan.unlink(missing_ok=True)
    wrong = []
    lines = ran.err.splitlines()
    if ran.code == 0 and builds.published() != expected:
        wrong.append("other records")
    if ran.code not in ((0, 1, 2, 3) if code == errno.EACCES else (0, 1, 2)):
        wrong.append(f"exit code {ran.code}")
    if ran.code in (1, 2) and len(lines) != 1:
        wrong.append(f"{len(lines)} lines")
    again = builds.run() if ran.code else ran
    # The fault may have come after `_SUCCESS`: the dataset is whole then, and not replaced.
    is_done = again.code == 0 or "holds a finished dataset" in again.err
    if not is_done or builds.published() != expected:
        wrong.append(f"not resumed: {again.code} {again.err}")
    return {"fault": [errno.errorcode[code], times, call, path], "code": ran.code, "err": lines[:3], "wrong": wrong}


def faults(looks: list[tuple[str, str]], *, most: int, seed: int) -> Iterator[Fault]:
    """All faults of a build, or some of them."""
    found = [
        (code, times, call, path)
        for (call, path), code, times in itertools.product(looks, ERRNOS, ("once", "always"))
        if code == errno.EIO or call != "readdir"
    ]
    yield from random.Random(seed).sample(found, min(most or len(found), len(found)))


def main() -> None:
    root, kind, most, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    plan, log = Path(os.environ["FAULTY_PLAN"]), Path(os.environ["FAULTY_LOG"])
    builds = Builds(root, kind)
    looks = find_looks(builds, log)
    expected = builds.published()
    for fault in faults(looks, most=most, seed=seed):
        print(json.dumps(evaluate(builds, expected, plan, fault)), flush=True)


if __name__ == "__main__":
    main()
