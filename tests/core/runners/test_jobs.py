"""The loop that follows a job, and what runners say of theirs. `tests/integration` has the tests that need a runner."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from beam_tfrecords.beam_pipelines.runners import jobs
from beam_tfrecords.beam_pipelines.runners.find_runner import find_state
from beam_tfrecords.beam_pipelines.runners.flink_runner import FlinkJob
from beam_tfrecords.beam_pipelines.runners.jobs import (
    FollowedJob,
    JobFailedError,
    JobRecord,
    JobState,
    Phase,
    UnreachableError,
)
from beam_tfrecords.beam_pipelines.runners.portable_runner import ServerJob
from beam_tfrecords.errors import BuildError
from tests.integration.servers.processes import free_port

RUNNING, DONE = JobState(Phase.RUNNING), JobState(Phase.DONE)
AWAY = UnreachableError("http://flink:8081", "Connection refused")


class ToldJob(FollowedJob):
    """A job that is in one state after the other, and stays in the last one."""

    record = JobRecord("SomeRunner", "1", "")

    def __init__(self, *states: JobState | UnreachableError) -> None:
        self._states = list(states)
        self.is_ended = False

    def state(self) -> JobState:
        state = self._states[0]
        if len(self._states) > 1:
            del self._states[0]
        if isinstance(state, UnreachableError):
            raise state
        return state

    def end(self) -> None:
        self.is_ended = True
        self._states = [JobState(Phase.STOPPED, "job 1 was canceled")]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(jobs, "_POLL", 0.0)


def test_what_happens_to_a_job_is_said_once(capsys):
    first, second = JobState(Phase.RUNNING, notes=("one",)), JobState(Phase.RUNNING, notes=("one", "two"))
    ToldJob(RUNNING, first, first, second, AWAY, second, DONE).wait()
    assert capsys.readouterr().err == "one\ntwo\n"


@pytest.mark.parametrize(
    ("state", "said", "may_succeed"),
    [
        (JobState(Phase.FAILED, "a worker was lost"), "a worker was lost", True),
        (JobState(Phase.STOPPED, "job 1 was canceled"), "job 1 was canceled", False),
        (JobState(Phase.FORGOTTEN, "who?"), "who?; the same command resumes from the finished blocks", False),
    ],
)
def test_a_job_is_submitted_again_only_if_another_may_succeed(state, said, may_succeed):
    with pytest.raises(BuildError) as raised:
        ToldJob(RUNNING, state).wait()
    assert (str(raised.value), isinstance(raised.value, JobFailedError)) == (said, may_succeed)


def test_a_job_that_cannot_succeed_is_cancelled():
    job = ToldJob(RUNNING, JobState(Phase.RUNNING, "the disk is full"))
    with pytest.raises(BuildError, match=r"^the disk is full$"):
        job.wait()
    assert job.is_ended


def test_a_job_whose_runner_stays_away_is_given_up(monkeypatch):
    monkeypatch.setattr(jobs, "AWAY", 0.05)
    said = r"^http://flink:8081 does not answer \(Connection refused\), for 0 s; the same command follows the job if it"
    with pytest.raises(BuildError, match=said):
        ToldJob(RUNNING, AWAY).wait()


def test_who_cancels_a_job_does_not_wait_for_a_runner_that_is_gone():
    job = ToldJob(AWAY)
    job.cancel()
    assert job.is_ended


class Flink:
    """A job manager that gives the answers that it is told to; path -> answer."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        flink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = flink.answers.get(self.path)
                self.send_response(404 if answer is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def has_job(self, state: str, *failures: str) -> FlinkJob:
        """A job with failures, newest first."""
        entries = [{"stacktrace": failure} for failure in failures]
        self.answers |= {"/jobs/1": {"state": state}, "/jobs/1/exceptions": {"exceptionHistory": {"entries": entries}}}
        return FlinkJob(self.url, "1")


@pytest.fixture
def flink() -> Iterator[Flink]:
    running = Flink()
    yield running
    running.server.shutdown()
    running.server.server_close()


LOST_SAID = "the worker {} was lost"
LOST = f"java.lang.Exception: {LOST_SAID}"
OUR_ERROR = "Traceback (most recent call last):\nbeam_tfrecords.errors.BuildError: the disk is full"
NO_PROGRAM = 'java.io.IOException: Cannot run program "/opt/worker": error=2, No such file or directory'


@pytest.mark.parametrize(
    ("state", "failures", "phase", "why"),
    [
        ("CREATED", [], Phase.RUNNING, ""),
        ("FINISHED", [], Phase.DONE, "job 1 was finished"),
        ("CANCELED", [LOST], Phase.STOPPED, "job 1 was canceled"),
        ("FAILED", [LOST.format(1)], Phase.FAILED, f"{LOST_SAID.format(1)} (Flink's page shows more)"),
        ("FAILED", [OUR_ERROR, LOST.format(1)], Phase.STOPPED, "the disk is full"),
        # One attempt may be unlucky; the second one says the same.
        ("RESTARTING", [OUR_ERROR], Phase.RUNNING, ""),
        ("RESTARTING", [OUR_ERROR, OUR_ERROR], Phase.RUNNING, "the disk is full"),
        ("RUNNING", [NO_PROGRAM], Phase.RUNNING, "a task manager has no /opt/worker; install this package there"),
    ],
)
def test_a_job_of_flink_is_what_flink_says_and_why(flink, state, failures, phase, why):
    found = flink.has_job(state, *failures).state()
    assert (found.phase, found.why[: len(why)] if why else found.why) == (phase, why)


def test_restarts_of_a_job_of_flink_are_noted_in_their_order(flink):
    job = flink.has_job("RUNNING", LOST.format(2), LOST.format(1), LOST.format(2))
    said = [f"Flink starts tasks again: {LOST_SAID.format(number)} (Flink's page shows more)" for number in (2, 1)]
    assert job.state() == JobState(Phase.RUNNING, notes=tuple(said))


def test_a_job_of_flink_is_found_by_its_name_until_it_has_a_number(flink):
    record = JobRecord("FlinkRunner", "", flink.url, "nightly")
    flink.answers["/jobs/overview"] = {"jobs": [{"name": "other", "jid": "7", "start-time": 9}]}
    state = find_state(record, None)
    assert (state.phase, state.why.partition(":")[0]) == (Phase.FORGOTTEN, "Flink knows no job nightly")
    flink.answers["/jobs/overview"]["jobs"] += [
        {"name": "nightly", "jid": "0", "start-time": 1},
        {"name": "nightly", "jid": "1", "start-time": 2},
    ]
    flink.has_job("RUNNING")
    assert FlinkJob.of(record) == FlinkJob(flink.url, "1")
    assert find_state(record, None) == RUNNING


def test_a_job_that_flink_has_no_more_is_forgotten(flink):
    state = FlinkJob(flink.url, "1").state()
    assert state == JobState(Phase.FORGOTTEN, "the job manager was restarted and no longer knows job 1")


@pytest.mark.parametrize("answer", [["jobs"], {"status": "RUNNING"}, "busy"])
def test_something_else_at_the_address_of_flink_is_no_answer(flink, answer):
    flink.answers["/jobs/1"] = answer
    with pytest.raises(UnreachableError, match=f"^{flink.url} does not answer"):
        FlinkJob(flink.url, "1").state()
    state = find_state(JobRecord("FlinkRunner", "1", f"{flink.url}/#/job/running/1"), None)
    assert (state.phase, state.why.partition(" (")[0]) == (Phase.UNKNOWN, f"{flink.url} does not answer")


def test_a_job_server_that_is_gone_does_not_answer():
    with pytest.raises(UnreachableError, match="the job server at localhost:"):
        ServerJob(f"localhost:{free_port()}", "job-001").state()


@pytest.mark.parametrize("url", ["", "file:///etc/passwd"])
def test_a_strangers_record_leads_to_no_file(url):
    assert find_state(JobRecord("FlinkRunner", "1", url), None).phase is Phase.UNKNOWN


@pytest.mark.parametrize(
    ("runner", "last_block", "found"),
    [
        ("PrismRunner", None, JobState(Phase.STOPPED)),
        ("SparkRunner", 0.0, JobState(Phase.STOPPED)),
        # Nobody asks Dataflow: a job of it runs if it converts blocks, and may run if not.
        ("DataflowRunner", 1e12, RUNNING),
        ("DataflowRunner", 0.0, JobState(Phase.UNKNOWN)),
        ("DataflowRunner", None, JobState(Phase.UNKNOWN)),
    ],
)
def test_a_job_that_cannot_be_asked_about_is_judged_by_its_blocks(runner, last_block, found):
    url = "https://console.cloud.google.com/dataflow/jobs" if runner == "DataflowRunner" else ""
    assert find_state(JobRecord(runner, "1", url), last_block) == found
