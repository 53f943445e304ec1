"""The images: built from the versions that the tests run with, and from files that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.each import each

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONSTRAINTS = (DEPLOY / "constraints.txt").read_text()
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", CONSTRAINTS, re.MULTILINE)
}
# Name -> version and hashes, as the images install them.
LOCKED = {
    name: (version, re.findall(r"--hash=sha256:([0-9a-f]{64})(?= |$)", hashes, re.MULTILINE))
    for name, version, hashes in re.findall(
        r"^(\S+)==(\S+) \\\n((?:    --hash=.*\n)+)", (DEPLOY / "requirements.txt").read_text(), re.MULTILINE
    )
}
DOCKERFILES = [DEPLOY / name / "Dockerfile" for name in ("dataflow", "kubernetes")]

every_image = pytest.mark.parametrize("path", DOCKERFILES, ids=[path.parent.name for path in DOCKERFILES])


def requirements() -> list[Requirement]:
    """What the package and its extras for buckets need here, from setup.py."""
    text = (ROOT / "setup.py").read_text()
    lists = re.findall(r"^(?:INSTALL_REQUIRES|GCP|AWS) = \[(.*?)\]$", text, re.MULTILINE | re.DOTALL)
    assert len(lists) == 3
    found = [Requirement(word) for words in lists for word in re.findall(r'"([^"]+)"', words)]
    return [one for one in found if one.marker is None or one.marker.evaluate()]


def argument(path: Path, name: str) -> str:
    return re.search(rf"^ARG {name}=(.*)$", path.read_text(), re.MULTILINE)[1]


@each("requirement", requirements(), ids=lambda requirement: str(requirement))
def test_the_pinned_version_is_one_that_the_package_takes(requirement):
    assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)]), "say: make deploy-files"


@each("requirement", requirements(), ids=lambda requirement: str(requirement))
def test_the_images_install_a_version_that_the_package_takes(requirement):
    version, _ = LOCKED[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version), "say: make deploy-files"


def test_the_images_install_the_tested_versions_and_know_the_hashes_of_all_files():
    lines = (DEPLOY / "requirements.txt").read_text().splitlines()
    assert sum(not line.startswith(("    --hash=", "#")) for line in lines) == len(LOCKED)
    assert {line.partition("=")[0] for line in lines if line.startswith(" ")} == {"    --hash"}
    assert all(hashes and len(hashes) == len(set(hashes)) for _, hashes in LOCKED.values())
    assert sum(len(hashes) for _, hashes in LOCKED.values()) == sum("--hash=" in line for line in lines)
    both = LOCKED.keys() & PINS.keys()
    assert {name: LOCKED[name][0] for name in both} == {name: PINS[name] for name in both}, "say: make deploy-files"
    # setuptools is not in what pip says of an environment.
    assert LOCKED.keys() - both <= {"setuptools"}


def test_the_lock_names_no_host():
    assert not re.search(r"://|index-url|find-links|trusted-host", (DEPLOY / "requirements.txt").read_text())


@every_image
def test_every_package_is_installed_by_its_hash(path):
    commands = re.findall(r"pip install .*?(?=&&|$)", path.read_text().replace("\\\n", " "), re.MULTILINE)
    assert len(commands) == 2
    assert "--require-hashes --requirement requirements.txt" in commands[0]
    assert "--no-deps --no-build-isolation ." in commands[1]


@every_image
def test_the_base_is_of_the_tested_versions(path):
    assert argument(path, "BEAM_VERSION") == PINS["apache-beam"]
    assert re.search(rf"^# .*Python {re.escape(argument(path, 'PYTHON_VERSION'))}\.", CONSTRAINTS, re.MULTILINE)


@every_image
def test_what_is_copied_is_there_and_not_ignored(path):
    lines = re.findall(r"^COPY (?!--from)(.*) \S+$", path.read_text(), re.MULTILINE)
    copied = {word for line in lines for word in line.split()}
    assert {"setup.py", "beam_tfrecords"} <= copied
    kept = re.findall(r"^!/(\S+)$", path.with_name("Dockerfile.dockerignore").read_text(), re.MULTILINE)
    for name in copied:
        assert (ROOT / name).exists(), name
        assert name.split("/")[0] in kept, name


def test_the_images_of_the_template_have_one_version_of_python():
    """The launcher's binary comes from an image that has the version in its name."""
    dockerfile = DOCKERFILES[0].read_text()
    version = argument(DOCKERFILES[0], "PYTHON_VERSION").replace(".", "")
    assert f"dataflow-templates-base/python{version}-template-launcher-base" in dockerfile


def test_no_image_is_the_latest_and_ours_are_named_by_their_digest():
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix in ("", ".yaml", ".sh", ".yml")]
    for path in files:
        text = "".join(line for line in path.read_text().splitlines(True) if not line.lstrip().startswith("#"))
        assert not re.search("[:=]latest", text), path
        assert all(name.endswith("@sha256:DIGEST") for name in re.findall(r"image: (REGISTRY/\S+)", text)), path


def pods(value: Any) -> Iterator[dict[str, Any]]:
    """The specifications of pods in a manifest."""
    if isinstance(value, dict):
        if "containers" in value or "initContainers" in value:
            yield value
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from pods(inner)


@pytest.mark.parametrize("path", ["kubernetes/job.yaml", "kubernetes/flink.yaml", "schedule/cronjob.yaml"])
def test_containers_cannot_write_to_their_image_but_to_volumes(path):
    found = [pod for document in yaml.safe_load_all((DEPLOY / path).read_text()) for pod in pods(document)]
    volumes = {volume["name"]: volume for pod in found for volume in pod.get("volumes", ())}
    assert found
    for pod in found:
        for container in [*pod.get("containers", ()), *pod.get("initContainers", ())]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            assert "emptyDir" in volumes[mounts["/tmp"]]
            assert set(mounts.values()) <= volumes.keys()


def test_flink_is_told_the_same_wherever_it_runs():
    told = yaml.safe_load((DEPLOY / "kubernetes/flink.yaml").read_text())["spec"]["flinkConfiguration"]
    builds = yaml.safe_load((DEPLOY / "flink/builds.yaml").read_text())
    shown = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in builds.items()}
    assert told == {"taskmanager.numberOfTaskSlots": "4", "web.submit.enable": "true", **shown}


def test_flink_may_write_its_logs_and_the_lists_of_its_pods_need_no_merging():
    spec = yaml.safe_load((DEPLOY / "kubernetes/flink.yaml").read_text())["spec"]
    common, others = spec["podTemplate"]["spec"], spec["taskManager"]["podTemplate"]["spec"]
    (flink,) = common["containers"]
    assert {mount["mountPath"] for mount in flink["volumeMounts"]} == {"/tmp", "/opt/flink/log"}
    # The operator merges by position what both have.
    assert not common.keys() & others.keys()


def test_the_policy_of_the_network_lets_the_launcher_reach_flinks_page():
    policy = yaml.safe_load((DEPLOY / "kubernetes/network-policy.yaml").read_text())["spec"]
    deployment = yaml.safe_load((DEPLOY / "kubernetes/flink.yaml").read_text())
    job = yaml.safe_load((DEPLOY / "kubernetes/job.yaml").read_text())["spec"]["template"]
    assert policy["podSelector"]["matchLabels"]["app"] == deployment["metadata"]["name"]
    among, others = policy["ingress"]
    assert among["from"] == [{"podSelector": policy["podSelector"]}]
    launcher = others["from"][0]["podSelector"]["matchLabels"]
    assert launcher.items() <= job["metadata"]["labels"].items()
    assert [port["port"] for port in others["ports"]] == [8081]
    assert "--flink_master=beam-tfrecords-rest:8081" in job["spec"]["containers"][0]["args"]
