"""How fast a dataset is read: our readers, a hand-tuned tf.data pipeline, PyTorch's and those of other formats.

    python benchmarks/readers.py                                     8,000 photos stored at 224x224, 5 rounds
    python benchmarks/readers.py --only=tf_data,load --rounds=9

The same JPEGs are stored as a dataset, as files in class folders, and as litData's and MosaicML Streaming's own files.
In each round every reader gives two epochs in its own process; the second one is measured, in the page cache. Takes the
environment of the integration tests, and `litdata` and `streaming` of environments.sh.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile

from contestants import ENVIRONMENT, environment_python, prepare_environments
from figures import COMMAND, list_versions, spread_of, write_figures
from make_photos import photo_options, photos_title, prepare_photos

from beam_tfrecords import open_dataset

_PROJECT = pathlib.Path(__file__).resolve().parents[1]
_SCRIPT = str(_PROJECT / "benchmarks" / "peers" / "epochs.py")
_FLAGS = ("--name=photos", "--image_size=224", "--resize_mode=crop", "--num_shards=8", "--quiet")
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
# Reader -> the readers that it is compared with.
AGAINST = {
    "load": ("tf_data",),
    "numbers": ("tf_data",),
    **dict.fromkeys(("torch", "torch_stream", "grain"), ("image_folder", "litdata", "streaming")),
}


def run_python(environment: str | None, *words: str) -> str:
    """Runs a script in an environment; returns the last line of its output.

    Raises:
      RuntimeError: the script failed; the message ends with the end of its log.
    """
    own = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(_PROJECT)}
    command = [environment_python(environment), *words]
    ran = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{words[:3]} ended with exit code {ran.returncode}:\n{ran.stderr[-4000:]}")
    return ran.stdout.strip().rpartition("\n")[2]


def make_inputs(photos: pathlib.Path, folder: pathlib.Path, names: list[str]) -> None:
    """Makes the dataset, and the same JPEGs in the forms of the others."""
    subprocess.run([COMMAND, "convert", f"--input={photos}", f"--output={folder}/records", *_FLAGS], check=True)
    dataset = open_dataset(folder / "records")
    for number, example in enumerate(dataset.records("train", form="features")):
        path = folder / "files" / dataset.class_names[example["label"]] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(example["image"])
    for name in {"litdata", "streaming"}.intersection(names):
        run_python(READERS[name][1], _SCRIPT, "make", name, str(folder))


def main() -> None:
    """Runs the rounds."""
    parser = photo_options(__doc__ or "")
    parser.add_argument("--only", default=",".join(READERS), help=f"some of {', '.join(READERS)}")
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    if unknown := set(names) - set(READERS):
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; expected some of {', '.join(READERS)}")
    photos = prepare_photos(arguments)
    prepare_environments(sorted({environment for name in names if (environment := READERS[name][1])}))
    rates: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(dir=photos.resolve().parent) as folder:
        make_inputs(photos, pathlib.Path(folder), names)
        for number in range(arguments.rounds):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                epoch = json.loads(run_python(READERS[name][1], _SCRIPT, "read", name, folder))
                if epoch["images"] != arguments.count:
                    raise RuntimeError(f"{name} gave {epoch['images']} of {arguments.count} images")
                rates[name].append(epoch["images"] / epoch["seconds"])
    for name, one in rates.items():
        print(f"{READERS[name][0]:52} {spread_of(one, '.0f')} images/s")
    write_figures(
        arguments.results / f"readers_{arguments.count}.json",
        rounds=arguments.rounds,
        versions={str(one): list_versions(environment_python(one)) for one in {READERS[name][1] for name in names}},
        size="224x224" if arguments.photos is None else f"224x224, from {photos_title(arguments)}",
        count=arguments.count,
        rates={READERS[name][0]: rates[name] for name in names},
        # Within a round, because a machine that is slower for a while slows both.
        against={
            f"{READERS[name][0]} against {READERS[other][0]}": [
                own / theirs for own, theirs in zip(rates[name], rates[other], strict=True)
            ]
            for name in names
            for other in AGAINST.get(name, ())
            if other in names
        },
    )


if __name__ == "__main__":
    main()
