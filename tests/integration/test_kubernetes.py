"""The manifests for Kubernetes, against the schemas of Kubernetes and of the Flink operator."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from apache_beam.options.pipeline_options import FlinkRunnerOptions

from tests.core.command_flags import read_flags
from tests.integration.servers.processes import PROJECT, ServerError

pytestmark = pytest.mark.nightly

DEPLOY = PROJECT / "deploy"
VERSION = "1.33"
_CRD = "META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"
MANIFESTS = [
    *(DEPLOY / "kubernetes" / name for name in ("network-policy.yaml", "flink.yaml", "job.yaml")),
    DEPLOY / "schedule" / "cronjob.yaml",
]


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


def find(path: Path, kind: str) -> dict[str, Any]:
    (found,) = (one for one in documents(path) if one["kind"] == kind)
    return found


@pytest.fixture(scope="module")
def crd() -> dict[str, Any]:
    """The schema of a FlinkDeployment, from the operator's own library."""
    jars = list((PROJECT / ".cache" / "jars").glob("flink-kubernetes-operator-api-*.jar"))
    if not jars:
        raise ServerError("the Flink operator's library is missing; run tests/integration/install.sh")
    with zipfile.ZipFile(jars[0]) as jar:
        definition = yaml.safe_load(jar.read(_CRD))
    (version,) = (one for one in definition["spec"]["versions"] if one["name"] == "v1beta1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    # Every resource has them.
    schema["properties"] |= {"apiVersion": {"const": "flink.apache.org/v1beta1"}, "kind": {}, "metadata": {}}
    return schema


def strict(schema: Any) -> Any:
    """A schema of Kubernetes as JSON schema, which refuses the fields that Kubernetes would drop without a word."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if made.pop("x-kubernetes-int-or-string", False):
        made["type"] = ["integer", "string"]
        made.pop("anyOf", None)
    preserves = made.pop("x-kubernetes-preserve-unknown-fields", False)
    if made.get("type") == "object" and isinstance(made.get("properties"), dict) and not preserves:
        made.setdefault("additionalProperties", False)
    return made


def containers() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name, pod and container of every container of ours."""
    job = find(DEPLOY / "kubernetes" / "job.yaml", "Job")["spec"]["template"]["spec"]
    cron = find(DEPLOY / "schedule" / "cronjob.yaml", "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    cluster = find(DEPLOY / "kubernetes" / "flink.yaml", "FlinkDeployment")["spec"]
    workers = cluster["taskManager"]["podTemplate"]["spec"]
    # The operator merges the two templates.
    workers = {**workers, "securityContext": cluster["podTemplate"]["spec"]["securityContext"]}
    return [
        (name, pod, one)
        for name, pod in (("job", job), ("cron", cron), ("workers", workers))
        for one in pod.get("containers") or pod["initContainers"]
    ]


every_container = pytest.mark.parametrize(
    ("pod", "container"), [one[1:] for one in containers()], ids=[one[0] for one in containers()]
)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_accepts_the_manifest(path):
    for document in documents(path):
        if document["kind"] != "FlinkDeployment":
            kubernetes_validate.validate(document, VERSION, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found():
    manifest = find(DEPLOY / "schedule" / "cronjob.yaml", "CronJob")
    manifest["spec"]["concurrency"] = "Forbid"
    with pytest.raises(kubernetes_validate.ValidationError, match="concurrency"):
        kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_the_operator_accepts_the_deployment(crd):
    jsonschema.validate(find(DEPLOY / "kubernetes" / "flink.yaml", "FlinkDeployment"), crd)


def test_a_field_that_the_operator_does_not_know_is_found(crd):
    manifest = find(DEPLOY / "kubernetes" / "flink.yaml", "FlinkDeployment")
    manifest["spec"]["taskManagers"] = {}
    with pytest.raises(jsonschema.ValidationError, match="taskManagers"):
        jsonschema.validate(manifest, crd)


def test_the_pods_of_the_deployment_are_pods():
    spec = find(DEPLOY / "kubernetes" / "flink.yaml", "FlinkDeployment")["spec"]
    for template in (spec["podTemplate"], spec["taskManager"]["podTemplate"]):
        # The operator merges it with its own containers.
        template["spec"].setdefault("containers", [{"name": "flink-main-container"}])
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "template"}, **template}
        kubernetes_validate.validate(pod, VERSION, strict=True)


@every_container
def test_containers_need_no_root_and_say_what_they_use(pod, container):
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]


def test_builds_do_not_run_beside_each_other_or_for_ever():
    spec = find(DEPLOY / "schedule" / "cronjob.yaml", "CronJob")["spec"]
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 24 * 3600


@pytest.mark.parametrize("path", MANIFESTS[2:], ids=lambda path: path.name)
def test_the_arguments_are_a_request_that_beam_knows(path, tmp_path):
    kind = "Job" if path.name == "job.yaml" else "CronJob"
    spec = find(path, kind)["spec"]
    job = spec if kind == "Job" else spec["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert container["command"] == ["beam-tfrecords", "convert"]
    arguments = container["args"]
    if kind == "CronJob":
        written = tmp_path / "nightly.yaml"
        written.write_text(find(path, "ConfigMap")["data"]["nightly.yaml"])
        mounted = "/etc/beam-tfrecords/nightly.yaml"
        assert f"--spec={mounted}" in arguments
        arguments = [word.replace(mounted, str(written)) for word in arguments]
    request, _ = read_flags(arguments)
    assert request.output.startswith("gs://")


def test_a_launcher_that_is_moved_costs_neither_an_attempt_nor_its_job():
    job = find(DEPLOY / "kubernetes" / "job.yaml", "Job")["spec"]
    moved = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert job["podFailurePolicy"]["rules"][0] == moved
    pod = job["template"]["spec"]
    assert "--keep_job" in pod["containers"][0]["args"]
    # Without that, it waits a minute for the end of the job that it cancels: docs/scheduled.md.
    assert pod["terminationGracePeriodSeconds"] > 60


def test_the_launcher_and_the_cluster_agree():
    cluster = find(DEPLOY / "kubernetes" / "flink.yaml", "FlinkDeployment")
    job = find(DEPLOY / "kubernetes" / "job.yaml", "Job")["spec"]["template"]["spec"]["containers"][0]
    flags = dict(word.removeprefix("--").partition("=")[::2] for word in job["args"])
    slots = cluster["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"]
    workers = cluster["spec"]["taskManager"]["podTemplate"]["spec"]["initContainers"][0]
    # The operator names the service of the REST interface.
    assert flags["flink_master"] == f"{cluster['metadata']['name']}-rest:8081"
    version = cluster["spec"]["flinkVersion"].removeprefix("v").replace("_", ".")
    assert cluster["spec"]["image"].startswith(f"flink:{version}-")
    assert version in FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
    assert flags["sdk_worker_parallelism"] == slots == workers["resources"]["requests"]["cpu"]
    assert int(flags["parallelism"]) % int(slots) == 0
    assert workers["image"] == job["image"]
    assert workers["args"] == ["--worker_pool"]
    # An init container that runs beside the others.
    assert workers["restartPolicy"] == "Always"


def test_the_jar_of_the_image_is_where_the_launcher_looks():
    dockerfile = (DEPLOY / "kubernetes" / "Dockerfile").read_text()
    cache = re.search(r"XDG_CACHE_HOME=(\S+)", dockerfile)[1]
    flink = find(DEPLOY / "kubernetes" / "flink.yaml", "FlinkDeployment")["spec"]["flinkVersion"]
    assert f"ARG FLINK_VERSION={flink.removeprefix('v').replace('_', '.')}\n" in dockerfile
    assert f"{cache}/beam-tfrecords/jars/flink-${{FLINK_VERSION}}-job-server.jar" in dockerfile
