"""The files for systemd and cron, checked by systemd and by a library that reads crontabs."""

from __future__ import annotations

import datetime
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import croniter
import pytest

from beam_tfrecords import open_dataset
from tests.core.command_flags import read_flags
from tests.integration.servers.processes import PROJECT

pytestmark = pytest.mark.nightly

FOLDER = PROJECT / "deploy" / "schedule"
SERVICE = FOLDER / "beam-tfrecords.service"
ALERT = FOLDER / "beam-tfrecords-alert.service"
TIMER = FOLDER / "beam-tfrecords.timer"
CRONTAB = FOLDER / "beam-tfrecords.crontab"
_INSTALLED = "/opt/beam-tfrecords/bin/beam-tfrecords"


def verify(folder: Path, service: str) -> subprocess.CompletedProcess[str]:
    """`systemd-analyze verify` of both units, with a program that is there."""
    program = Path(sys.executable).with_name("beam-tfrecords")
    (folder / SERVICE.name).write_text(service.replace(_INSTALLED, str(program)))
    shutil.copy(TIMER, folder)
    shutil.copy(ALERT, folder)
    units = [str(folder / unit.name) for unit in (SERVICE, ALERT, TIMER)]
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )


def test_systemd_accepts_the_units(tmp_path):
    ran = verify(tmp_path, SERVICE.read_text())
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_alert_is_a_mail_with_the_log(tmp_path):
    """With the programs of a machine that has systemd and a mail server."""
    programs = {"systemctl": 'echo "log of $5"', "sendmail": f"echo $1; cat > {tmp_path}/mail"}
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (line,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)$", ALERT.read_text(), re.MULTILINE)
    command = shlex.split(line.replace("\\\n", " ").replace("/usr/sbin/sendmail", "sendmail").replace("%H", "host-a"))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == "root\n"
    assert (
        tmp_path / "mail"
    ).read_text() == "Subject: beam-tfrecords failed on host-a\n\nlog of beam-tfrecords.service\n"


def test_systemd_finds_a_directive_that_does_not_exist(tmp_path):
    ran = verify(tmp_path, SERVICE.read_text().replace("Nice=10", "Niceness=10"))
    assert "Niceness" in ran.stderr


def test_the_timer_fires_every_night():
    (calendar,) = re.findall(r"^OnCalendar=(.*)$", TIMER.read_text(), re.MULTILINE)
    ran = subprocess.run(
        ["systemd-analyze", "calendar", "--iterations=2", calendar], capture_output=True, text=True, check=True
    )
    times = re.findall(r"(\d{4}-\d\d-\d\d 02:00:00)", ran.stdout)
    first, second = sorted({datetime.datetime.fromisoformat(time) for time in times})
    assert second - first == datetime.timedelta(days=1)


def cron_line() -> tuple[str, str, str]:
    """Times, user and command."""
    (line,) = (line for line in CRONTAB.read_text().splitlines() if re.match(r"[0-9*]", line))
    *times, user, command = line.split(None, 6)
    return " ".join(times), user, command


def test_cron_starts_it_every_night():
    times, user, command = cron_line()
    start = datetime.datetime(2026, 11, 21, 12, 0)
    schedule = croniter.croniter(times, start)
    assert schedule.get_next(datetime.datetime) == datetime.datetime(2026, 11, 22, 2, 0)
    assert schedule.get_next(datetime.datetime) == datetime.datetime(2026, 11, 23, 2, 0)
    assert user == "beam-tfrecords"
    # cron would take it for the end of the command.
    assert "%" not in command


def command_of_service() -> str:
    (command,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)$", SERVICE.read_text(), re.MULTILINE)
    return command.replace("\\\n", " ")


@pytest.mark.parametrize("command", [command_of_service(), cron_line()[2]], ids=["systemd", "cron"])
def test_the_command_is_a_versioned_build(command, tmp_path):
    words = shlex.split(command)
    assert words[words.index("convert") - 1] == _INSTALLED
    spec = tmp_path / "nightly.yaml"
    spec.write_text("input: photos/\n")
    flags = [
        word.replace("/etc/beam-tfrecords/nightly.yaml", str(spec)) for word in words[words.index("convert") + 1 :]
    ]
    request, beam = read_flags(flags)
    assert (request.versioned, request.keep_versions, beam) == (True, 7, [])


@pytest.mark.parametrize("command", [command_of_service(), cron_line()[2]], ids=["systemd", "cron"])
def test_the_command_builds_a_version_in_the_environment_that_it_gets(command, tmp_path):
    """With the few variables that cron sets."""
    state, spec = tmp_path / "state", tmp_path / "nightly.yaml"
    (state / "metrics").mkdir(parents=True)
    spec.write_text(f"input: {PROJECT / 'tests' / 'data' / 'photos'}\nimage_size: 64\n")
    command = command.replace(_INSTALLED, str(Path(sys.executable).with_name("beam-tfrecords")))
    command = command.replace("/etc/beam-tfrecords/nightly.yaml", str(spec))
    command = command.replace("/var/lib/beam-tfrecords", str(state))
    environment = {"HOME": str(state), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    ran = subprocess.run(["sh", "-c", command], cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert open_dataset(state / "photos").manifest["records"] == 42
    if "--quiet" in command:
        assert (ran.stdout, ran.stderr) == ("", "")
    else:
        assert json.loads((state / "last_build.json").read_text())["exit_code"] == 0
        assert "beam_tfrecords_exit_code" in (state / "metrics/beam_tfrecords.prom").read_text()


def test_cron_does_not_start_a_second_build_beside_the_first(tmp_path):
    words = shlex.split(cron_line()[2])
    lock = tmp_path / "lock"
    assert words[:2] == ["flock", "--nonblock"]
    with subprocess.Popen(["flock", "--nonblock", lock, "sleep", "30"]) as first:
        try:
            while not lock.exists():
                pass
            assert subprocess.run([*words[:2], lock, "true"], check=False).returncode == 1
        finally:
            first.terminate()
