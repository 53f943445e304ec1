"""What the schedulers of deploy/ do after each exit code, against the table of the page."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
DAG = DEPLOY / "schedule/beam_tfrecords_nightly.py"
# As docs/exit_codes.md has them.
FAILED, WRONG_REQUEST, UNPUBLISHED, LOCKED = 1, 2, 3, 4
RETRIED, FINAL = {FAILED, LOCKED}, {WRONG_REQUEST, UNPUBLISHED}
MANIFESTS = {DEPLOY / "kubernetes/job.yaml": "Job", DEPLOY / "schedule/cronjob.yaml": "CronJob"}


def job_of(path: Path) -> dict[str, Any]:
    (found,) = (one for one in yaml.safe_load_all(path.read_text()) if one["kind"] == MANIFESTS[path])
    return found["spec"] if MANIFESTS[path] == "Job" else found["spec"]["jobTemplate"]["spec"]


def action_of(job: dict[str, Any], code: int) -> str:
    """What Kubernetes does with a pod that ends with an exit code: the action of the first rule that fits."""
    (container,) = job["template"]["spec"]["containers"]
    for rule in job["podFailurePolicy"]["rules"]:
        on = rule.get("onExitCodes")
        if on and on["operator"] == "In" and on["containerName"] == container["name"] and code in on["values"]:
            return rule["action"]
    return "Count"


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((DEPLOY / "schedule" / name).read_text())
    return parser


def seconds(span: str) -> int:
    number, name = re.fullmatch(r"(\d+)(s|min|h)", span).groups()
    return int(number) * {"s": 1, "min": 60, "h": 3600}[name]


def test_the_page_names_every_exit_code_and_what_follows():
    rows = re.findall(r"^\| (\d) \| .* \| (\w+)", (DEPLOY / "schedule/README.md").read_text(), re.MULTILINE)
    actions = {int(code): action for code, action in rows}
    assert actions == {0: "none", **dict.fromkeys(RETRIED, "retry"), **dict.fromkeys(FINAL, "alert")}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_retries_what_may_succeed_later(path):
    job = job_of(path)
    assert {action_of(job, code) for code in FINAL} == {"FailJob"}
    # A build that waits for another one has made no attempt; the deadline bounds the wait.
    assert action_of(job, LOCKED) == "Ignore"
    assert job["activeDeadlineSeconds"] > 0
    assert {action_of(job, code) for code in (FAILED, 137, 143)} == {"Count"}
    assert job["backoffLimit"] > 0
    # The policy of a Job needs it.
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_systemd_retries_what_may_succeed_later_and_gives_up_before_the_next_night():
    parsed = unit("beam-tfrecords.service")
    service, limits = parsed["Service"], parsed["Unit"]
    assert service["Restart"] == "on-failure"
    assert {int(code) for code in service["RestartPreventExitStatus"].split()} == FINAL
    attempts, interval = int(limits["StartLimitBurst"]), seconds(limits["StartLimitIntervalSec"])
    # Attempts that fail at once reach the limit, and the start of the next night is outside the interval.
    assert attempts * seconds(service["RestartSec"]) < interval < 24 * 3600
    alert = limits["OnFailure"]
    assert "ExecStart" in unit(alert)["Service"]


def test_airflow_retries_what_may_succeed_later():
    text = DAG.read_text()
    final = re.search(r"^FINAL_EXIT_CODES = \((.*)\)$", text, re.MULTILINE)
    assert {int(code) for code in final[1].split(",")} == FINAL
    assert int(re.search(r"retries=(\d+)", text)[1]) > 0


def alert_of(page: str) -> str:
    """The block of a page below the heading "Alerts"."""
    text = (DEPLOY / "schedule" / page).read_text().partition("\n## Alerts\n")[2]
    return re.search(r"```\w+\n(.*?)```", text, re.DOTALL)[1]


def test_prometheus_watches_the_jobs_of_the_manifest():
    rule = yaml.safe_load(alert_of("kubernetes.md"))
    assert rule["kind"] == "PrometheusRule"
    expressions = [one["expr"] for group in rule["spec"]["groups"] for one in group["rules"]]
    manifest = next(one for one in yaml.safe_load_all((DEPLOY / "schedule/cronjob.yaml").read_text()) if "spec" in one)
    assert len(expressions) == 2
    assert all(f'"{manifest["metadata"]["name"]}' in one for one in expressions)


def test_cloud_monitoring_watches_the_jobs_of_the_script():
    command = shlex.split(alert_of("cloud_scheduler.md").replace("\\\n", " "))
    (policy,) = (json.loads(word.partition("=")[2]) for word in command if word.startswith("--policy="))
    (condition,) = policy["conditions"]
    name = re.search(r"JOB=\$\{JOB:-(.*)\}", (DEPLOY / "dataflow/schedule.sh").read_text())[1]
    assert f'job_name="{name}"' in condition["conditionThreshold"]["filter"]


def test_the_alert_of_airflow_is_python():
    compile(alert_of("airflow.md"), "airflow.md", "exec")
