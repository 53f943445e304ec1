"""The versions that scripts, manifests and pages name are those that the tests run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import apache_beam
import yaml

from tests.integration.servers import flink

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CLUSTERS = (ROOT / "docs" / "clusters.md").read_text()
MINOR = flink.VERSION.rpartition(".")[0]


def default_of(script: str, name: str) -> str:
    return re.search(rf"^{name}=(\S+)$", (DEPLOY / script).read_text(), re.MULTILINE)[1]


def version_in_page(runner: str) -> str:
    """The last column of a runner's row."""
    return re.search(rf"^\| `{runner}` .* \| ([^|]+) \|$", CLUSTERS, re.MULTILINE)[1]


def test_flink_is_the_same_everywhere():
    words = [str(DEPLOY / "flink" / "local-cluster.sh"), "--help"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert f"({flink.VERSION}, as the tests)" in shown
    assert f"|| echo {flink.VERSION})" in (DEPLOY / "flink" / "local-cluster.sh").read_text()
    assert default_of("flink/job-server/build.sh", "flink") == MINOR
    deployment = yaml.safe_load((DEPLOY / "kubernetes" / "flink.yaml").read_text())["spec"]
    assert deployment["flinkVersion"] == f"v{MINOR.replace('.', '_')}"
    assert deployment["image"].startswith(f"flink:{MINOR}-")
    assert f"ARG FLINK_VERSION={MINOR}\n" in (DEPLOY / "kubernetes" / "Dockerfile").read_text()
    assert version_in_page("FlinkRunner").startswith(f"Flink {flink.VERSION},")


def test_the_page_names_the_versions_of_beam_and_spark():
    beam = ".".join(apache_beam.__version__.split(".")[:2])
    assert version_in_page("PrismRunner") == f"Beam {beam}"
    for runner in ("flink", "spark"):
        job_server = default_of(f"{runner}/job-server/build.sh", "beam").rpartition(".")[0]
        assert version_in_page(f"{runner.title()}Runner").endswith(f"Beam {job_server}'s job server")
    assert version_in_page("SparkRunner").startswith(f"Spark {default_of('spark/job-server/build.sh', 'spark')},")


def test_pages_and_manifests_ask_for_one_version_of_kubernetes():
    files = [path for folder in ("kubernetes", "schedule") for path in (DEPLOY / folder).glob("*.*")]
    asked = [found for path in files for found in re.findall(r"Kubernetes (1\.\d+) or\s+newer", path.read_text())]
    assert len(asked) == 3
    assert set(asked) == {"1.31"}
