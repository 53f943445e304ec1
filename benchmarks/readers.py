"""How fast a dataset is read: our readers, a hand-tuned tf.data pipeline, PyTorch's and those of other formats.

    python benchmarks/readers.py                                     8,000 photos stored at 224x224, 5 rounds
    python benchmarks/readers.py --only=tf_data,load --rounds=9
    python benchmarks/readers.py --first_batch                       from gs:// and s3://, every request 20 ms
    python benchmarks/readers.py --cache                             epochs with a cache, against a local disk

The same JPEGs are stored as a dataset, as files in class folders, and as litData's and MosaicML Streaming's own files.
In each round every reader gives two epochs in a process of its own; the second one is measured, in the page cache. The
figures (JSON) go to --results; `tables.py` makes the table of the documents. Takes the environment of the integration
tests, and `litdata` and `streaming` of environments.sh.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from contestants import ENVIRONMENT, environment_python
from figures import list_versions, write_figures
from run import photo_options, photos_title, prepare_environments, prepare_photos

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from tests.integration import buckets

_PROJECT = pathlib.Path(__file__).resolve().parents[1]
_SCRIPT = str(_PROJECT / "benchmarks" / "peers" / "epochs.py")
_FLAGS = ("--name=photos", "--image_size=224", "--resize_mode=crop", "--num_shards=8")
# Reader -> title, and the environment that it runs in; None is that of this process.
READERS: dict[str, tuple[str, str | None]] = {
    "numbers": ("records[i], two processes", None),
    "torch": ("RecordDataset, DataLoader with 2 workers", None),
    "torch_stream": ("RecordStream, DataLoader with 2 workers", None),
    "grain": ("RecordSource, Grain with 2 processes", None),
    "load": ("load", None),
    "tf_data": ("hand-tuned tf.data", None),
    "image_folder": ("torchvision's ImageFolder, DataLoader with 2 workers", "litdata"),
    "litdata": ("litData, its loader with 2 workers", "litdata"),
    "streaming": ("MosaicML Streaming, DataLoader with 2 workers", "streaming"),
}
# What a reader is held against.
AGAINST = {
    "load": ("tf_data",),
    "numbers": ("tf_data",),
    **dict.fromkeys(("torch", "torch_stream", "grain"), ("image_folder", "litdata", "streaming")),
}
# From a process that has imported its libraries: `load`, and PyTorch's loader.
_FIRST = """
import sys, time
from torch.utils.data import DataLoader
from beam_tfrecords import load, open_dataset
from beam_tfrecords.torch import RecordStream
begin = time.monotonic()
if sys.argv[1] == "load":
    next(iter(load(sys.argv[2], "train", batch_size=64, shuffle=64)))
else:
    records = open_dataset(sys.argv[2]).records("train")
    next(iter(DataLoader(RecordStream(records, batch_size=64, shuffle=True), 64, num_workers=2)))
print(time.monotonic() - begin)
"""

# Three epochs, each as a line of seconds.
_EPOCHS = """
import random, sys, time
from beam_tfrecords import load, open_dataset
how, path, cache = sys.argv[1:]
given = {"cache": cache} if cache else {}
if how == "load":
    examples = load(path, "train", batch_size=64, shuffle=1000, **given)
    epoch = lambda: sum(1 for _ in examples)
else:
    records = open_dataset(path, **given).records("train")
    order = random.Random(0).sample(range(len(records)), len(records))
    epoch = lambda: [records.read_batch(order[start : start + 64]) for start in range(0, len(order), 64)][:0]
for _ in range(3):
    begin = time.monotonic()
    epoch()
    print(time.monotonic() - begin)
"""


def run_python(environment: str | None, *words: str) -> str:
    """Runs a script in an environment; returns the last line of what it printed.

    Raises:
      RuntimeError: it failed; the message ends with the end of its log.
    """
    own = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(_PROJECT)}
    ran = subprocess.run(
        [environment_python(environment), *words], env=own, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"{words[:3]} ended with exit code {ran.returncode}:\n{ran.stderr[-4000:]}")
    return ran.stdout.strip().rpartition("\n")[2]


def make_inputs(photos: pathlib.Path, folder: pathlib.Path, names: list[str]) -> None:
    """Makes the dataset, and the same JPEGs in the forms of the others."""
    from beam_tfrecords import open_dataset

    convert = [str(buckets.PROGRAM), "convert", f"--input={photos}", f"--output={folder}/records", "--quiet", *_FLAGS]
    subprocess.run(convert, check=True)
    dataset = open_dataset(folder / "records")
    for number, example in enumerate(dataset.records("train", form="features")):
        path = folder / "files" / dataset.class_names[example["label"]] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(example["image"])
    for name in names:
        if name in ("litdata", "streaming"):
            run_python(READERS[name][1], _SCRIPT, "make", name, str(folder))


def measure_first_batches(folder: pathlib.Path, *, rounds: int, latency: float) -> dict[str, Any]:
    """How long the first batch of a dataset in a bucket takes, where every request takes some time.

    Returns:
      Store -> reader -> seconds of each round.
    """
    *cores, own = sorted(os.sched_getaffinity(0))
    found: dict[str, Any] = {scheme: {} for scheme in buckets.SCHEMES}
    with contextlib.ExitStack() as stack:
        os.sched_setaffinity(0, {own})
        # Moto is busy for 3 ms with each of hundreds of requests, and would be what is measured.
        servers = stack.enter_context(buckets.services(folder, *buckets.SCHEMES, s3_program="versitygw"))
        for scheme in buckets.SCHEMES:
            buckets.upload(folder / "records", f"{scheme}://datasets/out")
            servers[scheme].latency = latency
            for reader in ("load", "torch_stream"):
                command = [sys.executable, "-c", _FIRST, reader, f"{scheme}://datasets/out"]
                run = functools.partial(subprocess.run, command, check=True, capture_output=True, text=True)
                pin = functools.partial(os.sched_setaffinity, 0, cores)
                times = [float(run(preexec_fn=pin).stdout.split()[-1]) for _ in range(rounds)]
                print(
                    f"first batch of {READERS[reader][0]} from {scheme}://: {statistics.median(times):.2f} s",
                    flush=True,
                )
                found[scheme][READERS[reader][0]] = times
    return found


def measure_cache(folder: pathlib.Path, *, rounds: int, latency: float) -> dict[str, Any]:
    """Epochs of a dataset in a bucket with a cache, of one process and of four, and those from a local disk.

    Returns:
      Reader -> kind of epoch -> seconds of each round.
    """
    out, count = "s3://datasets/out", 4
    measured: dict[str, Any] = {}
    with buckets.services(folder, "s3", s3_program="versitygw") as servers:
        buckets.upload(folder / "records", out)
        servers["s3"].latency = latency
        for how in ("load", "records"):
            found: dict[str, list[float]] = {"first": [], "cached": [], "local": [], "four": []}
            for number in range(rounds):
                cache = f"{folder}/{how}-{number}"
                first, *_, cached = _run_epochs(how, out, cache, processes=1)[0]
                local = _run_epochs(how, f"{folder}/records", "", processes=1)[0][-1]
                four = _run_epochs(how, out, f"{cache}-shared", processes=count)
                values = (first, cached, local, max(times[0] for times in four))
                for times, value in zip(found.values(), values, strict=True):
                    times.append(value)
                for one in (cache, f"{cache}-shared"):
                    shutil.rmtree(one)
            ratio = statistics.median(a / b for a, b in zip(found["local"], found["cached"], strict=True))
            first, four_first = (statistics.median(found[name]) for name in ("first", "four"))
            print(
                f"{how}: first epoch {first:.2f} s, later ones {ratio:.2f} of the rate of a local disk; the first "
                f"epoch of {count} processes with one cache {four_first:.2f} s",
                flush=True,
            )
            measured[how] = found
    return measured


def _run_epochs(how: str, path: str, cache: str, *, processes: int) -> list[list[float]]:
    """Seconds of the epochs of each process."""
    command = [sys.executable, "-c", _EPOCHS, how, path, cache]
    quiet = {**os.environ, "PYTHONPATH": str(_PROJECT)}
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=quiet)
        for _ in range(processes)
    ]
    found = [list(map(float, process.communicate()[0].split())) for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"{how} of {path} failed")
    return found


def main() -> None:
    """Runs the rounds and prints the medians."""
    parser = photo_options(__doc__ or "")
    parser.add_argument("--only", default=",".join(READERS), help=f"some of {', '.join(READERS)}")
    parser.add_argument("--first_batch", action="store_true", help="measure the first batch from buckets instead")
    parser.add_argument("--cache", action="store_true", help="measure epochs from a bucket with a cache instead")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds of a request to a bucket")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if unknown := set(names) - set(READERS):
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; there are {', '.join(READERS)}")
    photos = prepare_photos(arguments)
    size = "224x224" if arguments.photos is None else f"224x224, from {photos_title(arguments)}"
    with tempfile.TemporaryDirectory(dir=photos.resolve().parent) as temporary:
        folder = pathlib.Path(temporary)
        if arguments.first_batch or arguments.cache:
            make_inputs(photos, folder, [])
            measure, stem = (measure_cache, "cache") if arguments.cache else (measure_first_batches, "first_batch")
            write_figures(
                arguments.results / f"{stem}_{arguments.count}.json",
                script=__file__,
                rounds=arguments.rounds,
                size=size,
                count=arguments.count,
                latency=arguments.latency,
                seconds=measure(folder, rounds=arguments.rounds, latency=arguments.latency),
            )
            return
        environments = sorted({environment for name in names if (environment := READERS[name][1])})
        prepare_environments(environments)
        make_inputs(photos, folder, names)
        rates: dict[str, list[float]] = {name: [] for name in names}
        for number in range(arguments.rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                epoch = json.loads(run_python(READERS[name][1], _SCRIPT, "read", name, str(folder)))
                if epoch["images"] != arguments.count:
                    raise RuntimeError(f"{name} gave {epoch['images']} of {arguments.count} images")
                rates[name].append(epoch["images"] / epoch["seconds"])
                print(f"round {number + 1}  {name:14} {rates[name][-1]:7.0f} images/s", file=sys.stderr)
    results = {
        "rates": {READERS[name][0]: rates[name] for name in names},
        "against": {
            f"{READERS[name][0]} against {READERS[other][0]}": [
                # Within a round, so that a machine that is slower for a while is so for both.
                own / theirs
                for own, theirs in zip(rates[name], rates[other], strict=True)
            ]
            for name in names
            for other in AGAINST.get(name, ())
            if other in names
        },
    }
    for title, one in results["rates"].items():
        print(f"{title:52} {statistics.median(one):6.0f} images/s ({min(one):.0f} to {max(one):.0f})")
    for title, one in results["against"].items():
        print(f"{title}: {statistics.median(one):.2f}x")
    write_figures(
        arguments.results / f"readers_{arguments.count}.json",
        script=__file__,
        rounds=arguments.rounds,
        versions={str(one): list_versions(environment_python(one)) for one in {READERS[name][1] for name in names}},
        size=size,
        count=arguments.count,
        **results,
    )


if __name__ == "__main__":
    main()
