"""The command line of `convert`, and the spec file that it names: a flag beats the spec, the spec the default."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import yaml

from beam_pipelines.settings.definitions import SETTINGS, show_flags
from transforms import storage
from transforms.errors import RequestError

Value = TypeVar("Value")

_EPILOG = """\
examples:
  beam-tfrecords convert --input=photos/ --output=out/ --image_size=256
  beam-tfrecords convert --input=photos/ --output=out/ --splits=train=0.9,validation=0.1
  beam-tfrecords convert --input=labels.csv --output=out/ --image_column=path --label_column=class
  beam-tfrecords convert --spec=flowers.yaml --runner=FlinkRunner --flink_master=host:8081

Every other flag goes to Beam (--runner, --direct_num_workers, --temp_location, ...).
"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `RequestError`s."""

    def error(self, message: str) -> NoReturn:
        """Refuses the request."""
        raise RequestError(f"{message}; see {self.prog} --help")


def argument(read: Callable[[Any], Value]) -> Callable[[str], Value]:
    """A reader of `transforms.settings` as the type of an argument, whose errors say what was expected."""

    def read_argument(word: str) -> Value:
        try:
            return read(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{word}: {error}") from error

    return read_argument


@dataclasses.dataclass(frozen=True)
class Arguments:
    """A parsed command line.

    Attributes:
      words: name of a setting -> its word, from flags and spec file; defaults are left out.
      beam: arguments for Beam.
      verbose: whether Beam's own log is shown.
    """

    words: Mapping[str, Any]
    beam: list[str]
    verbose: bool


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Reads the command line of `convert`, and the spec file that it names.

    Raises:
      RequestError: the command line or the spec file cannot be read.
    """
    parsed, beam = _parser().parse_known_args(argv)
    given = vars(parsed)
    spec_file, verbose = given.pop("spec", None), given.pop("verbose", False)
    words = _read_spec(spec_file) if spec_file is not None else {}
    return Arguments({**words, **given}, beam, verbose)


def refuse_unknown(unknown: Sequence[str], known: Sequence[str]) -> NoReturn:
    """Refuses arguments that neither we nor Beam know, and names the nearest flag.

    Raises:
      RequestError: always.
    """
    word = unknown[0]
    if not word.startswith("--"):
        raise RequestError(f"unexpected argument {word!r}; flags are written --flag=value")
    name = word[2:].split("=")[0]
    near = difflib.get_close_matches(name.replace("-", "_"), [*SETTINGS, "spec", "verbose", *known], n=1)
    hint = f"did you mean --{near[0]}?" if near else "see --help for the known flags"
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
    parser.add_argument("--spec", metavar="FILE", help="YAML or JSON file with settings under the same names")
    parser.add_argument("--verbose", action="store_true", help="show Beam's own log")
    titles = dict.fromkeys(one.group for one in SETTINGS.values())
    groups = {title: parser.add_argument_group(title) for title in titles}
    for one in SETTINGS.values():
        shown = show_flags(one.help + (f" ({one.shown_default})" if one.shown_default else "")).replace("%", "%%")
        group = groups[one.group]
        if not one.is_switch:
            group.add_argument(f"--{one.name}", metavar="", help=shown)
            continue
        group.add_argument(f"--{one.name}", action="store_true", help=shown)
        if one.default:
            group.add_argument(f"--no_{one.name}", dest=one.name, action="store_false", help=argparse.SUPPRESS)
    return parser


def _read_spec(path: str) -> dict[str, Any]:
    try:
        text = storage.read_bytes(storage.absolute(path))
        values = yaml.safe_load(text)
    except OSError as error:
        raise RequestError(f"--spec={path}: cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RequestError(f"--spec={path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise RequestError(f"--spec={path}: expected a mapping of settings to values, found {type(values).__name__}")
    for name in values:
        if name not in SETTINGS:
            near = difflib.get_close_matches(str(name), SETTINGS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(SETTINGS)}"
            raise RequestError(f"--spec={path}: unknown key {name!r}; {hint}")
    # `key:` with nothing behind it asks for the default.
    return {name: value for name, value in values.items() if value is not None}
