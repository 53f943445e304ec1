"""Parses the command line of `convert` and its spec file: flags override the spec, and the spec the defaults."""

from __future__ import annotations

import argparse
import functools
import itertools
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import yaml

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.settings.definitions import RUNNER_FLAGS, SETTINGS, show_flags
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.habits import explain_name, is_habit
from beam_tfrecords.transforms.service_faults import describe_fault

Value = TypeVar("Value")
# Files for programs; also not settings.
SUMMARY_FILES = {
    "json_summary": "file for a summary in JSON, written on failure too",
    "metrics_file": "file for metrics, for Prometheus' textfile collector (*.prom)",
}
# Flags that are not settings, so a request does not contain them.
_SWITCHES = {
    "dry_run": "list the input, show what would be built, and build nothing; exit code 3 if nothing would be published",
    "no_wait": "submit the job to a cluster and return; `status` shows how far it is",
    "keep_job": "when SIGTERM ends the command, leave the job to the cluster; the same command follows it",
    "fail_job": "with --no_wait, let the job fail if it publishes nothing, because of a limit or guard",
    "no_report": "do not write report.html",
    "quiet": "print nothing if the build succeeds; errors and warnings only",
    "verbose": "show the log of the program and of Beam",
}
_EPILOG = """\
examples:
  beam-tfrecords convert photos/ out/ --image_size=256
  beam-tfrecords convert photos/ out/ --splits=train=0.9,validation=0.1
  beam-tfrecords convert labels.csv out/ --image_column=path --label_column=kind
  beam-tfrecords convert --spec=a.yml --runner=FlinkRunner --flink_master=h:8081

Every other flag goes to Beam (--runner, --direct_num_workers, ...). On Flink,
--max_slots=NUMBER leaves the other free task slots to other jobs.
"""
# Settings at the top of the help.
_USED_FIRST = frozenset(
    {
        *("input", "output", "image_size", "resize_mode", "splits", "stratify"),
        *("image_column", "label_column", "max_failures", "overwrite"),
    }
)
# Flags that Beam lacks.
OUR_FLAGS = {"max_slots": "task slots of a Flink cluster that a job takes at most; the others stay free"}


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Begins the help of each flag at one column, and ends it at the right side of the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=shutil.get_terminal_size().columns - 2)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are `RequestError`s."""

    def error(self, message: str) -> NoReturn:
        """Refuses the request."""
        see = "" if message.endswith("?") else f"; see {self.prog} --help"
        raise RequestError(f"{message}{see}", code="invalid_command_line")

    def print_help(self, file: Any = None) -> None:
        """Prints the help; unlike `argparse`, reports output that cannot be written."""
        show(*self.format_help().splitlines(), file=file)

    def add_folder(self, dest: str, help_text: str) -> None:
        """Adds the flag for the single folder of a command; `--dataset` and `--output` are synonyms."""
        self.add_argument("--dataset", "--output", dest=dest, metavar="FOLDER", required=True, help=help_text)

    def shown_flags(self) -> list[str]:
        """Returns the names of the flags that the help shows or names, without dashes and synonyms."""
        shown = [action for action in self._actions if action.option_strings and action.help != argparse.SUPPRESS]
        opposites = [f"no_{name}" for name, setting in SETTINGS.items() if setting.is_switch and setting.default]
        known = [f"--{name}" for name in opposites if f"--{name}" in self._option_string_actions]
        return [word.lstrip("-") for word in (*(action.option_strings[0] for action in shown), *known)]

    def normalize(self, argv: Sequence[str]) -> tuple[list[str], list[str]]:
        """Returns the arguments before the first flag, and the others in this parser's spelling.

        For example, `--image-size` becomes `--image_size`, and `--overwrite=true` becomes `--overwrite`.
        """
        leading = list(itertools.takewhile(lambda word: not word.startswith("-"), argv))
        flags = []
        for word in argv[len(leading) :]:
            flag, sign, value = word.partition("=")
            name = flag.replace("-", "_").replace("__", "--", 1)
            action = self._option_string_actions.get(name)
            if action is None:
                flags.append(word)
            elif not (sign and action.nargs == 0):
                flags.append(name + sign + value)
            elif value.lower() not in ("true", "false"):
                self.error(f"{name}={value}: expected true or false, or {name} alone")
            elif value.lower() == "true":
                flags.append(name)
            elif (opposite := f"--no_{name[2:]}") in self._option_string_actions:
                flags.append(opposite)
        return leading, flags

    def read_arguments(self, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Parses the command line of a command with one folder, which may be its first word.

        Returns:
          The parsed arguments, and the arguments that this parser does not know.

        Raises:
          RequestError: a flag is given twice; argparse would use the last one.
        """
        leading, flags = self.normalize(argv)
        if len(leading) > 1:
            self.error(f"unexpected argument {leading[1]!r}; expected one folder")
        flags = [*(f"--dataset={word}" for word in leading), *flags]
        names = [word.partition("=")[0] for word in flags]
        actions = [self._option_string_actions.get(name) for name in names]
        for name, action in zip(names, actions, strict=True):
            if action is not None and actions.count(action) > 1:
                said = dict.fromkeys(other for other, one in zip(names, actions, strict=True) if one is action)
                if len(said) > 1:
                    target = "; --to names the folder to write" if "--to" in self._option_string_actions else ""
                    self.error(f"{' and '.join(said)} both name the folder of the dataset; give one{target}")
                self.error(f"{name} is given more than once; give it once")
        return self.parse_known_args(flags)

    def read_all(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parses like `read_arguments`, for a command without arguments for Beam.

        Raises:
          RequestError: a flag is given twice, or unknown.
        """
        arguments, unknown = self.read_arguments(argv)
        if unknown:
            refuse_unknown(unknown, self.shown_flags())
        return arguments


def argument(read: Callable[[Any], Value]) -> Callable[[str], Value]:
    """Converts a reader of `transforms.settings` to an argument type whose errors say what was expected."""

    def read_argument(word: str) -> Value:
        try:
            return read(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{word}: {error}") from error

    return read_argument


class _StoreWord(argparse.Action):
    """Stores the raw value of a flag; makes a list for a repeatable flag, and refuses to repeat others."""

    def __call__(self, parser: argparse.ArgumentParser, given: Any, word: Any, option: str | None = None) -> None:
        word = word if self.nargs is None else self.const
        earlier = getattr(given, self.dest, None)
        if earlier is None:
            setattr(given, self.dest, word)
        elif self.dest in SETTINGS and SETTINGS[self.dest].may_repeat:
            setattr(given, self.dest, [*(earlier if isinstance(earlier, list) else [earlier]), word])
        else:
            values = "" if self.nargs is not None else f" ({earlier} and {word})"
            parser.error(f"{option} contradicts or repeats an earlier flag{values}; give it once")


class _Loader(yaml.SafeLoader):
    """Refuses a mapping with a repeated key; YAML's own loader would keep the last one."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = (key_node.tag, key_node.value) if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.constructor.ConstructorError(problem=f"the key {key[1]} occurs twice, again in line {line}")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parses the command line of `convert`, and the spec file that it names.

    Returns:
      `raw_values`, name of a setting -> its raw value, from flags and spec file, without defaults; `beam`, the
      arguments for Beam; and the switches that are not settings.

    Raises:
      RequestError: the command line or the spec file cannot be parsed.
    """
    parsed, beam = _parser().parse_known_args(spell_out(argv))
    given = vars(parsed)
    spec_file = given.pop("spec", None)
    switches = {name: given.pop(name, False) for name in _SWITCHES}
    for name in SUMMARY_FILES:  # see `find_summary_files`
        given.pop(name, None)
    settings = _read_spec(spec_file) if spec_file is not None else {}
    return argparse.Namespace(raw_values={**settings, **given}, beam=beam, **switches)


def spell_out(argv: Sequence[str]) -> list[str]:
    """Returns the command line of `convert` with positional arguments as flags."""
    leading, flags = _parser().normalize(argv)
    # As in `cp`, the last of several folders is the target.
    if setting := next((word for word in leading if "=" in word and word.partition("=")[0] in SETTINGS), None):
        _parser().error(f"unexpected argument {setting!r}; did you mean --{setting}?")
    inputs = leading[:-1] or leading
    folders = [*(f"--input={word}" for word in inputs), *(f"--output={word}" for word in leading[len(inputs) :])]
    return [*folders, *flags]


def find_summary_files(argv: Sequence[str]) -> dict[str, str | None]:
    """Returns the files for the run summary and the metrics on a command line, even if the rest of it is wrong."""
    parser = Parser(add_help=False, allow_abbrev=False)
    for name in SUMMARY_FILES:
        parser.add_argument(f"--{name}")
    return vars(parser.parse_known_args(parser.normalize(argv)[1])[0])


def refuse_unknown(unknown: Sequence[str], known: Sequence[str], flags: Sequence[str] = ()) -> NoReturn:
    """Refuses unknown arguments, and says what the first one means if that is clear.

    Args:
      unknown: the arguments.
      known: names of flags.
      flags: names of Beam's flags.

    Raises:
      RequestError: always.
    """
    word = unknown[0]
    if not word.startswith("-"):
        raise RequestError(
            f"unexpected argument {word!r}; {_explain_words(unknown)}",
            code="unexpected_argument",
        )
    name = word.partition("=")[0]
    # As in `-j8`.
    if joined := re.fullmatch("(-[a-z])[0-9]+", name):
        name = joined[1]
    hint = explain_name(name.lstrip("-"), known=known, ask=_ask, flags=flags)
    raise RequestError(f"{name}: unknown flag; {hint or 'see --help for the known flags'}", code="unknown_setting")


def _ask(meaning: str) -> str:
    shown = show_flags(f"`{meaning}`")
    return f"did you mean {shown if shown.startswith('--') else f'--{meaning}'}?"


def _explain_words(words: Sequence[str]) -> str:
    """Says what is wrong with words between flags."""
    folders = {(storage.dirname(word), word.rpartition(".")[2].lower()) for word in words if not word.startswith("-")}
    name, equals, _ = words[0].partition("=")
    if equals and name in SETTINGS:
        return f"did you mean --{words[0]}?"
    if len(words) > 1 and not words[1].startswith("-") and len(folders) == 1:
        ((folder, ending),) = folders
        pattern = storage.join(folder, f"*.{ending}") if folder else f"*.{ending}"
        return f"the shell has replaced a pattern by the files that it matches; quote it, as in --input='{pattern}'"
    return "folders come before all flags, and flags are written --flag=value"


def make_parser() -> Parser:
    """Returns the parser of `convert`, which omits defaults from its result."""
    parser = Parser(
        prog="beam-tfrecords convert",
        description="Images and labels in; a shuffled, sharded, verified TFRecord dataset out.",
        usage="%(prog)s INPUT [INPUT ...] OUTPUT [--flag=value ...]",
        epilog=_EPILOG,
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    parser.register("action", None, _StoreWord)
    parser.add_argument(
        "--spec",
        metavar="FILE",
        help="file of YAML, JSON or TOML (*.toml) with settings under the same names; - reads standard input",
    )
    for name, help_text in _SWITCHES.items():
        parser.add_argument(f"--{name}", action="store_true", help=help_text)
    for name, help_text in SUMMARY_FILES.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=help_text)
    first = parser.add_argument_group("used first")
    # The help shows groups in this order.
    parser._action_groups.insert(0, parser._action_groups.pop())
    titles = dict.fromkeys(setting.group for setting in SETTINGS.values())
    groups = {title: parser.add_argument_group(title) for title in titles}
    for setting in SETTINGS.values():
        shown = show_flags(setting.help + (f" ({setting.shown_default})" if setting.shown_default else "")).replace(
            "%", "%%"
        )
        group = first if setting.name in _USED_FIRST else groups[setting.group]
        if not setting.is_switch:
            group.add_argument(f"--{setting.name}", metavar="", help=shown)
            continue
        group.add_argument(f"--{setting.name}", nargs=0, const=True, help=shown)
        group.add_argument(f"--no_{setting.name}", dest=setting.name, nargs=0, const=False, help=argparse.SUPPRESS)
    # The name of this folder in other commands.
    parser.add_argument("--dataset", dest="output", help=argparse.SUPPRESS)
    return parser


# One command needs it several times, and it takes as long to make as listing a small folder.
_parser = functools.cache(make_parser)


def _read_toml(text: bytes) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    return tomllib.loads(text.decode())


def _read_spec(path: str) -> dict[str, Any]:
    try:
        text = sys.stdin.buffer.read() if path == "-" else storage.read_bytes(storage.absolute(path))
        values = _read_toml(text) if path.lower().endswith(".toml") else yaml.load(text, Loader=_Loader)
    except OSError as error:
        if storage.is_service_fault(error):
            raise BuildError(describe_fault(f"--spec={path}", error)) from error
        raise RequestError(
            f"--spec={path}: cannot be read: {error.strerror or error}", code="unreadable_spec"
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        kind = "TOML" if path.lower().endswith(".toml") else "YAML"
        raise RequestError(
            f"--spec={path}: not valid {kind}: {' '.join(str(error).split())}", code="invalid_spec"
        ) from error
    except RecursionError:
        raise RequestError(
            f"--spec={path}: nested too deeply; a setting needs three levels at most", code="invalid_spec"
        ) from None
    if not isinstance(values, dict):
        raise RequestError(
            f"--spec={path}: expected a mapping of settings to values, found {type(values).__name__}",
            code="invalid_spec",
        )
    for name in values:
        if name not in SETTINGS:
            raise _refuse_key(path, str(name))
    # `key:` without a value means the default.
    return {name: value for name, value in values.items() if value is not None}


def _refuse_key(path: str, name: str) -> RequestError:
    """Returns the error about a key of a spec file that is not a setting."""
    of_command = (*_SWITCHES, *SUMMARY_FILES)
    beam_flags = flag_names(add_beam_flags(Parser(add_help=False, allow_abbrev=False)))
    if name in of_command or (name in beam_flags and not is_habit(name)):
        return RequestError(
            f"--spec={path}: {name!r} is not a setting; give it on the command line, as --{name}",
            code="flag_in_spec",
        )

    def ask(meaning: str) -> str:
        key, equals, fixed = meaning.partition("=")
        if key in SETTINGS:
            return f"did you mean {key}{equals and ': '}{fixed}?"
        more = f" (with Dataflow, as --{name})" if name in beam_flags else ""
        return f"give it on the command line, as --{meaning}{more}"

    hint = explain_name(name, known=(*SETTINGS, *of_command, *RUNNER_FLAGS), ask=ask)
    hint = re.sub("`([a-z_]+)`", r"\1", re.sub("`([a-z_]+)=", r"`\1: ", hint))
    return RequestError(
        f"--spec={path}: unknown key {name!r}; {hint or 'docs/settings.md lists all keys'}", code="unknown_setting"
    )


def add_beam_flags(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Adds the flags of Beam and its runners, and ours, to a parser; imports Beam."""
    from apache_beam.options.pipeline_options import PipelineOptions

    for options in sorted(PipelineOptions.__subclasses__(), key=lambda kind: kind.__name__):
        options._add_argparse_args(parser)
    for name, help_text in OUR_FLAGS.items():
        parser.add_argument(f"--{name}", help=help_text)
    return parser


def flag_names(parser: argparse.ArgumentParser) -> list[str]:
    """Returns the names of a parser's flags, without dashes."""
    return [flag.lstrip("-") for action in parser._actions for flag in action.option_strings]
