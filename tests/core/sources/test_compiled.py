"""Compiled expressions find what the interpreter of jmespath finds."""

from __future__ import annotations

import dataclasses
import random

import jmespath
import pytest
from jmespath.exceptions import JMESPathError
from jmespath.visitor import TreeInterpreter

from beam_tfrecords.transforms.sources.annotated.compiled import compile_tree
from beam_tfrecords.transforms.sources.annotated.mapping import (
    FUNCTIONS,
    DocumentMapping,
    Expression,
    mapping_names,
    read_mapping,
)
from tests.each import each

# What the mappings do not have.
OTHERS = [
    "a", "a.b.c", "@", "a[0]", "a[-1].b", "a[2:0:-1]", "a[*].b", "a[].b[]", "*.a", "{x: a, y: b.c}", "[a, b.c]", "!a",
    "a && b || c", "a == b", "a == `1`", "a == `true`", "a != 'x'", "'x' == a.b", "a > `1`", "a[?b == 'x'].c",
    "a[?b] | [0]", "length(a)", "flags(a)", "sum([a, b])", "map(&b, a)", "sort_by(a, &b)", "[a][].b",
    "a || `[1, {\"b\": 2}]`",
]  # fmt: skip


def expressions_of(value):
    """Returns the texts of all expressions in a mapping."""
    if isinstance(value, Expression):
        return [value.text]
    if isinstance(value, DocumentMapping) or dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for one in value for text in expressions_of(one)] if isinstance(value, list | tuple) else []


TEXTS = sorted({*OTHERS, *(text for name in mapping_names() for text in expressions_of(read_mapping(name)))})


def names_in(tree):
    """The names and texts in an expression, from which documents are made that it fits."""
    if isinstance(tree, dict):
        own = [tree["value"]] if isinstance(tree.get("value"), str) else []
        return own + [name for child in tree["children"] for name in names_in(child)]
    return []


def make(rng, names, depth):
    """A document of a depth, mostly with the names that an expression looks for."""
    kind = rng.choice(["object", "object", "list", "text"]) if depth else rng.choice(["text", "number", "empty"])
    if kind == "object":
        return {name: make(rng, names, depth - 1) for name in rng.sample(names, min(len(names), 4))}
    if kind == "list":
        return [make(rng, names, depth - 1) for _ in range(rng.randrange(4))]
    if kind == "text":
        return rng.choice([*names, "", "x", "[{}]", "1.5"])
    return rng.choice([0, 1, 2.5, True, False]) if kind == "number" else rng.choice([None, [], {}, ""])


def outcome(find, document):
    try:
        return repr(find(document))
    except (JMESPathError, ValueError, TypeError) as error:
        return type(error).__name__


@pytest.mark.nightly
@each("text", TEXTS)
def test_a_compiled_expression_finds_what_the_interpreter_finds(text):
    tree = jmespath.compile(text).parsed
    find = compile_tree(tree, FUNCTIONS)
    interpreter = TreeInterpreter(jmespath.Options(custom_functions=FUNCTIONS))
    names = [*{*names_in(tree), "a", "b", "c"}]
    for seed in range(300):
        rng = random.Random(f"{text} {seed}")
        document = make(rng, sorted(names), rng.randrange(5))
        expected = outcome(lambda node: interpreter.visit(tree, node), document)
        assert outcome(find, document) == expected, (seed, document)


def test_expressions_of_all_mappings_are_tried():
    assert len(TEXTS) > 100
