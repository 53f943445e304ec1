"""Compiles expressions of JMESPath to functions, which take a fifth of the interpreter's time.

The tree is jmespath's own; what is not known here is left to its interpreter, and so are all rules of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jmespath.functions import Functions
from jmespath.visitor import Options, TreeInterpreter

Find = Callable[[Any], Any]


def compile_tree(tree: Any, functions: Functions) -> Find:
    """Returns a function that finds the value of an expression in a document.

    Args:
      tree: the parsed expression.
      functions: what the expression may call.
    """
    names = names_of(tree)
    if names is not None:
        return _follow(names)
    make = _MAKERS.get(tree["type"])
    children = [one for one in tree["children"] if isinstance(one, dict)]
    if make is None or any(one["type"] in ("expref", "key_val_pair") for one in children):
        return _interpret(tree, functions)
    return make(tree, [compile_tree(one, functions) for one in children], functions)


def _interpret(tree: Any, functions: Functions) -> Find:
    interpreter = TreeInterpreter(Options(custom_functions=functions))
    return lambda node: interpreter.visit(tree, node)


def names_of(tree: Any) -> Sequence[str] | None:
    """Returns the names in an expression such as `a.b`, none for `@`; None for other expressions."""
    if tree["type"] in ("identity", "current"):
        return ()
    if tree["type"] == "field":
        return (tree["value"],)
    parts = [names_of(one) for one in tree["children"]] if tree["type"] == "subexpression" else [None]
    return None if None in parts else [name for part in parts for name in part or ()]


def _is_false(value: Any) -> bool:
    return value is None or value is False or value == "" or value == [] or value == {}


def _follow(names: Sequence[str]) -> Find:
    if len(names) == 1:
        (only,) = names
        return lambda node: node.get(only) if isinstance(node, dict) else None

    def find(node: Any) -> Any:
        for name in names:
            node = node.get(name) if isinstance(node, dict) else None
        return node

    return find


def _index(tree: Any, _: Sequence[Find], functions: Functions) -> Find:
    place = tree["value"]
    least = place + 1 if place >= 0 else -place
    return lambda node: node[place] if isinstance(node, list) and len(node) >= least else None


def _literal(tree: Any, _: Sequence[Find], functions: Functions) -> Find:
    value = tree["value"]
    return lambda node: value


def _chain(tree: Any, steps: Sequence[Find], functions: Functions) -> Find:
    first, *others = steps
    if len(others) == 1:
        second = others[0]
        return lambda node: second(first(node))

    def find(node: Any) -> Any:
        for step in steps:
            node = step(node)
        return node

    return find


def _or(tree: Any, sides: Sequence[Find], functions: Functions) -> Find:
    left, right = sides

    def find(node: Any) -> Any:
        found = left(node)
        return right(node) if _is_false(found) else found

    return find


def _and(tree: Any, sides: Sequence[Find], functions: Functions) -> Find:
    left, right = sides

    def find(node: Any) -> Any:
        found = left(node)
        return found if _is_false(found) else right(node)

    return find


def _comparator(tree: Any, sides: Sequence[Find], functions: Functions) -> Find:
    left, right = sides
    # Numbers and booleans have rules of their own.
    is_text = any(one["type"] == "literal" and isinstance(one["value"], str) for one in tree["children"])
    if not is_text or tree["value"] not in ("eq", "ne"):
        return _interpret(tree, functions)
    if tree["value"] == "eq":
        return lambda node: left(node) == right(node)
    return lambda node: left(node) != right(node)


def _projection(tree: Any, parts: Sequence[Find], functions: Functions) -> Find:
    base, each = parts[:2]
    condition = parts[2] if len(parts) > 2 else None

    def find(node: Any) -> Any:
        several = base(node)
        if not isinstance(several, list):
            return None
        if condition:
            several = [one for one in several if not _is_false(condition(one))]
        return [found for one in several if (found := each(one)) is not None]

    return find


def _multi_select(tree: Any, parts: Sequence[Find], functions: Functions) -> Find:
    return lambda node: None if node is None else [part(node) for part in parts]


def _function(tree: Any, arguments: Sequence[Find], functions: Functions) -> Find:
    name = tree["value"]
    # Types of arguments that `call_function` has checked; it also checks the elements of lists.
    checked: set[Sequence[type]] = set()

    def find(node: Any) -> Any:
        values = [argument(node) for argument in arguments]
        types = (*map(type, values),)
        if types in checked:
            return functions.FUNCTION_TABLE[name]["function"](functions, *values)
        found = functions.call_function(name, values)
        if list not in types:
            checked.add(types)
        return found

    return find


_MAKERS: dict[str, Callable[[Any, Sequence[Find], Functions], Find]] = {
    "index": _index, "literal": _literal, "subexpression": _chain, "index_expression": _chain, "pipe": _chain,
    "or_expression": _or, "and_expression": _and, "comparator": _comparator, "projection": _projection,
    "filter_projection": _projection, "multi_select_list": _multi_select, "function_expression": _function,
}  # fmt: skip
