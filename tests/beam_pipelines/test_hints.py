"""Every message that offers a flag is in the outcome of a case or in a refusal of a test, or a test follows it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.core.refusal_snapshot import SNAPSHOT
from tests.package_code import package_nodes

ROOT = Path(__file__).parents[2]
# A text of a message that no case and no refusal has -> the test, or the test with a server, that follows it.
FOLLOWED = {
    "and samples are parts of them; use `layout=columns`": "properties/test_kept_records.py",
    "expected 1, 3 or 4, or `layout=array`": "properties/test_pixels.py",
    "expected 1, 3 or 4 channels, or `layout=array`": "properties/test_pixels.py",
    "which say their sizes; leave `pixels` out": "properties/test_pixels.py",
    "`layout=detection_polygons` or `layout=": "cases/yolo.yaml",
    "; `array_axes=CHW` or `array_axes=HWC` says it": "beam_pipelines/test_bands.py",
    "which is raw; leave `image_encoding` out, or ask for": "beam_pipelines/test_bands.py",
    "use `requester_pays=PROJECT`": "integration/test_store_faults.py",
    "or set the command of Python workers by `environment_type`": "integration/test_flink.py",
    "or set `environment_type` and `environment_config`": "core/runners/test_clusters.py",
    "allow more, or lower `max_image_memory`": "integration/test_memory_kills.py",
    "allow more, or set less with `max_image_memory`": "integration/test_memory_kills.py",
    "or allow a share of the samples with `max_failures`": "beam_pipelines/test_sample_transforms.py",
    "only has an effect with `map`; use, for example,": "beam_pipelines/test_wrong_requests.py",
    "give it in `beam_arguments`, as --{}": "beam_pipelines/test_habits.py",
}
_IS_HINT = re.compile(
    r"\b(?:say|use|leave|lower|set|give|run|read it)\b[^`;.]{0,60}(?:`[a-z_]+[`=]|--[a-z])|\bor `[a-z_]+="
)


def messages() -> Iterator[str]:
    """Yields the texts in the code that offer flags; `{}` stands for what is filled in."""
    for nodes in package_nodes().values():
        left_out: set[ast.AST] = set()
        for node in nodes:
            if isinstance(node, ast.Expr | ast.JoinedStr):  # docstrings, and the parts of a text
                left_out.update(ast.iter_child_nodes(node))
            elif isinstance(node, ast.keyword) and node.arg in ("help", "shown_default"):
                left_out.update(ast.walk(node.value))
        for node in set(nodes) - left_out:
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in parts)
            if isinstance(node, ast.JoinedStr | ast.Constant) and _IS_HINT.search(text):
                yield text


def test_every_message_that_offers_a_flag_is_followed():
    cases = (path.read_text(encoding="utf-8").replace("''", "'") for path in (ROOT / "tests/cases").glob("*.yaml"))
    refusals = (
        text for tests in json.loads(SNAPSHOT.read_text()).values() for texts in tests.values() for text in texts
    )
    said = "\n".join([*cases, *refusals])
    found = [*messages()]
    assert len(found) > 25
    left = [text for text in found if not all(part in said for part in text.split("{}"))]
    assert [text for text in left if not any(one in text for one in FOLLOWED)] == []
    assert [one for one in FOLLOWED if not any(one in text for text in left)] == []
    assert [path for path in FOLLOWED.values() if not (ROOT / "tests" / path).exists()] == []
