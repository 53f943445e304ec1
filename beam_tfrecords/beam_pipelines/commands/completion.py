"""`beam-tfrecords completion`: prints a script for shell completion of commands, flags, files and values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

import shtab

from beam_tfrecords.beam_pipelines.commands import demo, export, inspect_dataset, report, status, verify
from beam_tfrecords.beam_pipelines.messages.exit_codes import DONE
from beam_tfrecords.beam_pipelines.settings import command_line
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.features.layouts import NAMED
from beam_tfrecords.transforms.sources.registry import NAMES

_PARSERS = {
    "demo": demo.make_parser,
    "convert": command_line.make_parser,
    "verify": verify.make_parser,
    "inspect": inspect_dataset.make_parser,
    "export": export.make_parser,
    "report": report.make_parser,
    "status": status.make_parser,
}
_FOLDERS = frozenset({"output", "dataset", "reuse", "to"})
# Values of settings that take others too.
_CHOICES = {"source": ("auto", *NAMES), "layout": tuple(NAMED), "compression": ("none", "gzip")}
# bash splits `--flag=value` into three words. Where nothing is known, it completes files as without a script.
_FOR_BASH = """
_beam_tfrecords() {
  local at last=$COMP_CWORD
  local -a given=("${COMP_WORDS[@]}")
  local -a COMP_WORDS=()
  for ((at = 0; at <= last; at++)); do
    if [[ ${given[at]} != "=" ]]; then COMP_WORDS+=("${given[at]}"); elif ((at == last)); then COMP_WORDS+=(""); fi
  done
  local COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _shtab_beam_tfrecords
}
complete -o bashdefault -o default -F _beam_tfrecords beam-tfrecords
"""


def completion(argv: Sequence[str]) -> int:
    """Runs the command.

    Raises:
      RequestError: the shell is unknown.
    """
    parser = command_line.Parser(
        prog="beam-tfrecords completion",
        description="Prints a script by which a shell completes commands, flags, files and values.",
        epilog='bash, zsh: eval "$(beam-tfrecords completion bash)"; fish: beam-tfrecords completion fish | source',
    )
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)
    show(*_make_script(parser.parse_args(argv).shell).splitlines())
    return DONE


def _make_script(shell: str) -> str:
    program = argparse.ArgumentParser(prog="beam-tfrecords")
    commands = program.add_subparsers()
    for name, make_parser in _PARSERS.items():
        parser = make_parser()
        for action in parser._actions:
            _describe_values(action)
        folders = parser.add_argument("folders", nargs="*", help="folders and files")
        folders.complete = shtab.FILE  # type: ignore[attr-defined]
        commands.add_parser(name, parents=[parser], conflict_handler="resolve", help=f"see {name} --help")
    script: str = shtab.complete(program, shell)
    match shell:
        case "bash":
            return script + _FOR_BASH
        case "zsh":
            # Flags take their value after `=` too, and a value may be `train=photos/`.
            script = script.replace(':_files"', """:{compset -P '*='; _files}\"""")
            script = re.sub(r'^(  "--\w+)(\[.*\]:)', r"\1=\2", script, flags=re.MULTILINE)
            return script.replace('{--dataset,--output}"', '{--dataset=,--output=}"')
        case "fish":
            # fish completes files itself, after `=` too.
            return re.sub(r'-xka "\(__fish_complete_(path|directories)[^"]*"', "-rF", script)
    return script


def _describe_values(action: argparse.Action) -> None:
    """Sets what completes the value of a flag: its choices, folders, or files as for unknown flags."""
    setting = SETTINGS.get(action.dest)
    choices = _CHOICES.get(action.dest) or (setting.choices if setting else ())
    if action.nargs == 0:
        return
    if choices:
        action.choices = choices
    else:
        action.complete = shtab.DIRECTORY if action.dest in _FOLDERS else shtab.FILE  # type: ignore[attr-defined]
