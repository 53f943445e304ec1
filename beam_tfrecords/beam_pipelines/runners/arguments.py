"""Parses the arguments for Beam once, and checks that Beam knows them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import sysconfig
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.settings.command_line import (
    OUR_FLAGS,
    Parser,
    add_beam_flags,
    flag_names,
    make_parser,
    refuse_unknown,
)
from beam_tfrecords.beam_pipelines.settings.definitions import RUNNER_FLAGS
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.settings import whole_number

# Flags that a runner reads or sets.
_FLAGS = (
    "runner", "direct_running_mode", "direct_num_workers", "job_endpoint", "job_name", "environment_type",
    "environment_config", "environment_cache_millis", "environment_option", "environment_options",
    "sdk_worker_parallelism", "parallelism", "flink_master", "flink_version", "flink_job_server_jar",
    "prism_log_kind", "spark_master_url", "spark_job_server_jar", "temp_location", "template_location",
    "resource_hints", "flexrs_goal", "num_workers", "max_num_workers", "machine_type",
)  # fmt: skip
# Command by which a cluster starts a Python worker.
_WORKER = "beam-tfrecords-worker"
# Flag that is a number of workers or slots -> its minimum. Beam takes 0 as a number of its own choice.
_NUMBERS = {
    **dict.fromkeys(("max_slots", "parallelism", "num_workers", "max_num_workers"), 1),
    **dict.fromkeys(("direct_num_workers", "sdk_worker_parallelism"), 0),
}
# Flags that a scheduler may set for any job.
JOB_LABELS = ("label", "labels")
_BEAMS_S3 = (
    "s3_access_key_id", "s3_secret_access_key", "s3_session_token", "s3_endpoint_url", "s3_region_name",
    "s3_api_version", "s3_verify", "s3_disable_ssl",
)  # fmt: skip
_VARIABLES = (
    "s3:// is read with boto3, which takes the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, "
    "AWS_ENDPOINT_URL, AWS_CA_BUNDLE and AWS_DEFAULT_REGION; set these instead"
)


@dataclasses.dataclass(frozen=True)
class BeamArguments:
    """Arguments for Beam and its runners.

    Attributes:
      words: command-line words for Beam.
      given: flag name -> raw value; None if the flag was not given.
      others: command-line words for flags that are not in `given`.
    """

    words: tuple[str, ...]
    given: Mapping[str, Any]
    others: tuple[str, ...]

    @classmethod
    def parse(cls, words: Sequence[str]) -> BeamArguments:
        """Parses the flags that runners read, without importing Beam."""
        parser = Parser(prog="beam-tfrecords convert", add_help=False, allow_abbrev=False)
        for name in OUR_FLAGS:
            parser.add_argument(f"--{name}", default=None)
        ours, beams = parser.parse_known_args(list(words))
        for name in _FLAGS:
            parser.add_argument(f"--{name}", default=None)
        given, others = parser.parse_known_args(beams, ours)
        return cls(tuple(beams), vars(given), tuple(others))

    def add(self, flags: Mapping[str, str]) -> list[str]:
        """Returns the words, with flags added that were not given; a flag with an empty value is a switch."""
        missing = {name: word for name, word in flags.items() if self.given.get(name) is None}
        return [*self.words, *(f"--{name}={word}" if word else f"--{name}" for name, word in missing.items())]

    def describe(self, flags: Mapping[str, str]) -> str:
        """Describes the flags that were not given, for a note."""
        missing = (f"--{name}={word}" for name, word in flags.items() if self.given.get(name) is None)
        return " ".join(missing) or "nothing"

    def number(self, name: str) -> int | None:
        """Returns the number of workers or slots that was given for a flag; None if the flag was not given.

        Raises:
          RequestError: the value is not a whole number, or is too small.
        """
        word = self.given[name]
        try:
            return None if word is None else whole_number(_NUMBERS[name])(word)
        except ValueError as error:
            raise RequestError(f"--{name}={word}: {error}", code="invalid_value") from error

    def worker_flags(self) -> dict[str, str]:
        """Returns flag name -> value for starting Python workers in the environment of this program.

        There are none if the user configures how workers are started.

        Raises:
          RequestError: the command is not installed.
        """
        names = (name for name in self.given if name.startswith("environment_") and name != "environment_cache_millis")
        if any(self.given[name] is not None for name in names):
            return {}
        command = os.path.join(sysconfig.get_path("scripts"), _WORKER)
        if not storage.exists(command):
            raise RequestError(
                f"{command} is missing, by which the cluster would start Python workers; install beam-tfrecords with "
                "pip, or set `environment_type` and `environment_config`",
                code="missing_program",
            )
        return {"environment_type": "PROCESS", "environment_config": json.dumps({"command": command})}

    def check_used(self, idle: Mapping[str, str]) -> None:
        """Checks that every given argument has an effect.

        Args:
          idle: name of a flag without effect on the runner -> explanation and alternative.

        Raises:
          RequestError: an argument would have no effect, or is not a number of workers.
        """
        idle = {**dict.fromkeys(_BEAMS_S3, _VARIABLES), **idle}
        for flag, following in itertools.pairwise([*self.others, ""]):
            name, _, word = flag.removeprefix("--").partition("=")
            # Schedulers such as Airflow add labels to every job, as key=value or JSON.
            is_label = name in JOB_LABELS and ("=" in (word or following) or (word or following).startswith("{"))
            if flag.startswith("--") and name in idle and not is_label:
                raise RequestError(f"--{name}: {idle[name]}", code="setting_not_applicable")
        for name, word in self.given.items():
            if word is not None and name in idle:
                raise RequestError(f"--{name}={word}: {idle[name]}", code="setting_not_applicable")
        for name in _NUMBERS:
            self.number(name)

    def check_known(self) -> None:
        """Checks that Beam knows all arguments; imports Beam only if there are arguments that runners do not read.

        Raises:
          RequestError: an argument is unknown.
        """
        if not self.others:
            return
        parser = add_beam_flags(Parser(prog="beam-tfrecords convert", add_help=False, allow_abbrev=False))
        _, unknown = parser.parse_known_args(list(self.words))
        if unknown:
            known = [*make_parser().shown_flags(), *RUNNER_FLAGS]
            refuse_unknown(unknown, known, flag_names(parser))
