"""Measures the memory that converting a file takes: `python -m tests.core.images.peak_memory < jobs.json`.

A job is the path of a file and the words of an `ImageSpec`. Each runs in a process of its own, forked when everything
is imported. Prints a JSON array: per job the peak in bytes beyond that of the empty process, and the outcome.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.processes.worker import prepare_process
from beam_tfrecords.transforms.settings import read_settings


def status(name: str) -> int:
    """Bytes of VmRSS (now) or VmHWM (peak) of this process."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def measure(path: str, words: dict[str, str]) -> tuple[int, str]:
    """The peak and the outcome of one job."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before, outcome = status("VmRSS"), "ok"
        try:
            convert_image(Path(path).read_bytes(), read_settings(ImageSpec, words))
        except SampleError as error:
            outcome = f"{error.reason.value}: {error.detail}"
        os.write(writer, json.dumps((status("VmHWM") - before, outcome)).encode())
        os._exit(0)
    os.close(writer)
    answer = os.read(reader, 1 << 16)
    os.close(reader)
    os.waitpid(child, 0)
    peak, outcome = json.loads(answer)
    return peak, outcome


def measure_accepted(path: str, words: dict[str, str]) -> tuple[int, str, int]:
    """The peak, the outcome, and the smallest limit in MB that accepts the file."""
    limit = 1
    while True:
        peak, outcome = measure(path, {**words, "max_image_memory": f"{limit}MB"})
        needed = re.match(r"too_much_memory: .* about (\d+) MB", outcome)
        if needed is None:
            return peak, outcome, limit
        limit = int(needed[1]) + 1


if __name__ == "__main__":
    prepare_process()
    run = measure if sys.argv[1:] == ["--once"] else measure_accepted
    print(json.dumps([run(path, words) for path, words in json.load(sys.stdin)]))
