"""The flags of `convert`, and how they meet a spec file: a flag beats the spec, the spec beats the default."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import yaml

from transforms import storage
from transforms.errors import RequestError


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag of `convert`; `default` is what a spec that does not mention it gets."""

    name: str
    help: str
    default: Any = None
    is_switch: bool = False


GROUPS: Mapping[str, Sequence[Flag]] = {
    "what goes in": [
        Flag("input", "folder, glob or manifest; local, gs:// or s3://"),
        Flag("source", "auto, image_folder, filename_pattern, csv, jsonl, parquet (auto)", "auto"),
        Flag("label_pattern", "regular expression with a named group `label`, searched in the key"),
        Flag("class_names", "names in index order: comma-separated, or a file with one a line (sorted names found)"),
        Flag("image_column", "manifest's column with the image's path (image)"),
        Flag("label_column", "manifest's column with the label (label)"),
        Flag("split_column", "manifest's column with the split (split)"),
        Flag("key_column", "manifest's column with the key (the image's path)"),
        Flag("splits", "auto, train=0.9,validation=0.1 or train=FOLDER,validation=FOLDER (auto)", "auto"),
        Flag("allow_outside_root", "a manifest may name files outside its own folder", False, is_switch=True),
    ],
    "what comes out": [
        Flag("output", "folder of the dataset"),
        Flag("name", "name of the dataset (made from the input's)"),
        Flag("layout", "tfds, imagenet, tutorial or raw; a mapping of features in a spec (tfds)"),
        Flag("shard_size", "size of a shard (150MB)", "150MB"),
        Flag("num_shards", "fixed number of shards per split"),
        Flag("compression", "none or gzip (none)", "none"),
        Flag("seed", "seed of the order and of fractions of splits (0)", 0),
        Flag("overwrite", "replace a finished dataset", False, is_switch=True),
    ],
    "images": [
        Flag("image_size", "256, or height x width: 224x160 (size kept)"),
        Flag("resize_mode", "shorter, longer, exact, pad or crop (shorter)", "shorter"),
        Flag("resample", "bicubic, bilinear, lanczos, box or nearest (bicubic)", "bicubic"),
        Flag("upscale", "enlarge smaller images (default; --no_upscale: leave them)", True, is_switch=True),
        Flag("image_encoding", "jpeg, png, webp, raw or keep (jpeg)"),
        Flag("codec", "fast, or exact: byte for byte what Pillow makes (fast)", "fast"),
        Flag("jpeg_quality", "1 to 100 (95)", 95),
        Flag("channels", "1, 3, 4 or keep (3; for --image_encoding=keep: keep)"),
        Flag("check", "decode every pixel, or for keep: header (decode)", "decode"),
    ],
    "bad images": [
        Flag("max_failures", "share of the samples that may fail before the build does (0.01)", 0.01),
        Flag("max_pixels", "images whose header says more are refused unread (178956970)", 178_956_970),
        Flag("max_file_size", "larger files are refused unread (1GB)", "1GB"),
        Flag("image_timeout", "seconds that one image may take (60)", 60),
        Flag("allow_truncated", "take what there is of files that end too early", False, is_switch=True),
        Flag("duplicates", "images with the same bytes: keep, drop (all but one) or fail (keep)", "keep"),
    ],
}
FLAGS: Mapping[str, Flag] = {flag.name: flag for flags in GROUPS.values() for flag in flags}
_EPILOG = """\
examples:
  beam-tfrecords convert --input=photos/ --output=out/ --image_size=256
  beam-tfrecords convert --input=photos/ --output=out/ --splits=train=0.9,validation=0.1
  beam-tfrecords convert --input=labels.csv --output=out/ --image_column=path --label_column=class
  beam-tfrecords convert --spec=flowers.yaml --runner=FlinkRunner --flink_master=host:8081

Every other flag goes to Beam's own options (--runner, --direct_num_workers, --temp_location, ...).
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `RequestError`s."""

    def error(self, message: str) -> NoReturn:
        """Refuses the request."""
        raise RequestError(f"{message}; see {self.prog} --help")


@dataclasses.dataclass(frozen=True)
class Arguments:
    """A parsed command line.

    Attributes:
      words: flag name -> its value, from flags, spec file and defaults.
      beam: arguments for Beam.
      verbose: whether Beam's own log is shown.
    """

    words: Mapping[str, Any]
    beam: list[str]
    verbose: bool


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Reads the command line of `convert`, and the spec file that it names.

    Raises:
      RequestError: if the command line or the spec file can't be read.
    """
    parsed, beam = _parser().parse_known_args(argv)
    given = vars(parsed)
    spec_file, verbose = given.pop("spec", None), given.pop("verbose", False)
    words = {name: flag.default for name, flag in FLAGS.items()}
    if spec_file is not None:
        words.update(_read_spec(spec_file))
    words.update(given)
    return Arguments(words, beam, verbose)


def refuse_unknown(unknown: Sequence[str], known: Sequence[str]) -> NoReturn:
    """Refuses arguments that neither we nor Beam know, and names the nearest flag.

    Raises:
      RequestError: always.
    """
    word = unknown[0]
    if not word.startswith("--"):
        raise RequestError(f"unexpected argument {word!r}; flags are written --flag=value")
    name = word[2:].split("=")[0]
    near = difflib.get_close_matches(name.replace("-", "_"), [*FLAGS, "spec", "verbose", *known], n=1)
    hint = f"did you mean --{near[0]}?" if near else "see --help for the flags there are"
    raise RequestError(f"--{name}: unknown flag; {hint}")


def _parser() -> Parser:
    parser = Parser(
        prog="beam-tfrecords convert",
        description="Images and labels in; a shuffled, sharded, verified TFRecord dataset out.",
        usage="%(prog)s --input=IMAGES --output=FOLDER [--flag=value ...]",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("--spec", metavar="FILE", help="YAML or JSON file that says the same in the same words")
    parser.add_argument("--verbose", action="store_true", help="show Beam's own log")
    for title, flags in GROUPS.items():
        group = parser.add_argument_group(title)
        for flag in flags:
            if not flag.is_switch:
                group.add_argument(f"--{flag.name}", metavar="", help=flag.help)
                continue
            group.add_argument(f"--{flag.name}", dest=flag.name, action="store_true", help=flag.help)
            if flag.default:
                group.add_argument(f"--no_{flag.name}", dest=flag.name, action="store_false", help=argparse.SUPPRESS)
    return parser


def _read_spec(path: str) -> dict[str, Any]:
    try:
        text = storage.read_bytes(storage.absolute(path))
        values = yaml.safe_load(text)
    except OSError as error:
        raise RequestError(f"--spec={path}: can't be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RequestError(f"--spec={path}: no valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise RequestError(f"--spec={path}: expected a mapping of flags to values, found {type(values).__name__}")
    for name in values:
        if name not in FLAGS:
            near = difflib.get_close_matches(str(name), FLAGS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(FLAGS)}"
            raise RequestError(f"--spec={path}: unknown key {name!r}; {hint}")
    # `key:` with nothing behind it asks for the default, as if it were not there.
    return {name: value for name, value in values.items() if value is not None}
