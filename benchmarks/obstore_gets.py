"""Processor time of a GET with our reader of s3:// and with obstore, in turn, from a server on this machine.

pip install obstore in an environment with the extra `integration`; then

python benchmarks/obstore_gets.py [--rounds=3] [--count=1000]

It says why obstore is not a dependency; docs/architecture.md has the figures.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from beam_tfrecords import storage
from tests.integration import buckets

_BYTES, _OBJECTS, _THREADS = 110_000, 200, 16


def _read_with_obstore() -> Callable[[str], int]:
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        "photos",
        endpoint=os.environ["AWS_ENDPOINT_URL"],
        region=os.environ["AWS_DEFAULT_REGION"],
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )
    return lambda name: len(bytes(obstore.get(store, name).bytes()))


def _read_with_storage() -> Callable[[str], int]:
    return lambda name: len(storage.read_bytes(f"s3://photos/{name}"))


_READERS = {"beam_tfrecords": _read_with_storage, "obstore": _read_with_obstore}


def _measure(read: Callable[[str], int], count: int) -> float:
    """Returns milliseconds of this process for each GET."""
    read("0.jpg")
    before = resource.getrusage(resource.RUSAGE_SELF)
    with ThreadPoolExecutor(_THREADS) as pool:
        total = sum(pool.map(read, [f"{number % _OBJECTS}.jpg" for number in range(count)]))
    after = resource.getrusage(resource.RUSAGE_SELF)
    if total != count * _BYTES:
        raise RuntimeError(f"{total} bytes were read; expected {count * _BYTES}")
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000 / count


def main() -> None:
    """Prints the processor time of each round; each reader has a process of its own, apart from the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--reader", choices=_READERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reader:
        print(f"{arguments.reader} {_measure(_READERS[arguments.reader](), arguments.count):.2f} ms")
        return
    with tempfile.TemporaryDirectory() as folder, buckets.services(pathlib.Path(folder), "s3"):
        for number in range(_OBJECTS):
            storage.write_bytes(f"s3://photos/{number}.jpg", os.urandom(_BYTES))
        for _ in range(arguments.rounds):
            for name in _READERS:
                subprocess.run([sys.executable, __file__, f"--reader={name}", f"--count={arguments.count}"], check=True)


if __name__ == "__main__":
    main()
