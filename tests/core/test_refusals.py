"""Every code of a refusal is one name of one fault, is provoked by a test, and is on the page that users read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from beam_tfrecords.beam_pipelines.settings.definitions import _FLAGS
from tests.core.refusal_snapshot import PAGE, is_there, read_snapshot, with_table
from tests.package_code import package_nodes

# Besides flags: an argument of Python, and a flag of Dataflow.
KNOWN = _FLAGS | {"cache", "template_location"}


def codes() -> Iterator[str]:
    """The codes in the program: each is a keyword, or the first of the two parts of a `Fault`."""
    for nodes in package_nodes().values():
        for node in nodes:
            if isinstance(node, ast.keyword) and node.arg == "code":
                yield from strings_of(node.value)
            elif isinstance(node, ast.FunctionDef) and node.returns and "Fault" in ast.unparse(node.returns):
                made = (one.value for one in ast.walk(node) if isinstance(one, ast.Return | ast.Yield))
                for value in made:
                    yield from strings_of(value.elts[0]) if isinstance(value, ast.Tuple) else ()


def strings_of(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.IfExp):
        yield from strings_of(value.body)
        yield from strings_of(value.orelse)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value


def test_a_code_is_words_in_snake_case():
    found = set(codes())
    assert len(found) > 100
    assert [code for code in found if not re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", code)] == []


def test_every_code_is_provoked_by_a_test():
    snapshot = read_snapshot()
    assert sorted(set(codes()) - set(snapshot)) == []
    assert sorted(set(snapshot) - set(codes())) == []
    assert [test for tests in snapshot.values() for test in tests if not is_there(test)] == []


def test_the_page_has_every_code():
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page, read_snapshot()), "say python -m pytest --update-refusals"


def test_backticks_in_a_message_are_for_settings():
    others = {
        f"{code}: {name}"
        for code, tests in read_snapshot().items()
        for messages in tests.values()
        for message in messages
        for name in re.findall(r"`([a-z_]+)(?:=[^`]*)?`", message)
        if name not in KNOWN and code != "unknown_setting"
    }
    assert sorted(others) == []
