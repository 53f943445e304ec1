"""A build that is suspended for longer than its lease does no harm, wherever it stands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.progress_lines import without_progress

ROOT = Path(__file__).parents[3]
# A build makes some 80 changes; all of them take two minutes.
EVERY = 19


@pytest.fixture
def words(tmp_path):
    """Arguments that name one of two inputs."""
    spec = {"layout": {"text": {"field": "column.text", "type": "bytes"}}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("text,number\n" + "".join(f"{name} {i},{i}\n" for i in range(20)))
    return lambda name: [f"--input={tmp_path / name}.csv", f"--spec={tmp_path / 'spec.json'}", "--quiet"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("other", "flags", "before"),
    [
        pytest.param("one", ["--overwrite"], False, id="the same request", marks=pytest.mark.nightly),
        pytest.param(
            "two",
            ["--overwrite", "--num_shards=2", "--splits=train=1"],
            False,
            id="another request",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "two",
            ["--overwrite"],
            True,
            id="over an earlier dataset",
            marks=pytest.mark.nightly,
        ),
        pytest.param("two", ["--versioned", "--guard=off"], False, id="versions"),
        pytest.param(
            "one",
            ["--versioned", "--guard=off"],
            False,
            id="versions of the same request",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_suspended_build_leaves_what_another_has_published_meanwhile(words, tmp_path, other, flags, before):
    request = {
        "suspended": [*words("one"), *(["--versioned"] if "--versioned" in flags else ["--overwrite"])],
        "other": [*words(other), *flags],
        "before": words("two") if before else None,
        "folder": str(tmp_path),
        "first": len(flags),
        "every": EVERY,
    }
    ran = subprocess.run(
        [sys.executable, "-m", "tests.core.workspace.suspended_builds", json.dumps(request)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr
    tried = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(tried) > 2
    for one in tried:
        code, other_code = one["codes"]
        assert other_code == 0, one
        assert one["left"] == one["published"], one
        # A version that is published, and that LATEST does not name any more, is no success. Who asks for the version
        # that another build has made meanwhile has nothing to do.
        is_made = one["was_published"] or (other == "one" and "--versioned" in flags)
        assert code in ((0, 1) if is_made else (1,)), one
        if code:
            (line,) = without_progress(one["errors"][0]).splitlines()
            assert "another build" in line
