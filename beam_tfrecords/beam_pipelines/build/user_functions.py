"""Finds the user functions that a request names, with the source code of their modules."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.request.build_spec import BuildSpec, write_map
from beam_tfrecords.transforms.sources.input_settings import GivenFunction, names_function
from beam_tfrecords.transforms.sources.registry import FUNCTIONS

_PACKAGE = "__init__"
# Installed on every worker, so its modules are never sent.
_OURS = "beam_tfrecords"
# Folders of installed packages: other modules there do not belong to the user.
_INSTALLED = ("site-packages", "dist-packages")


def find_functions(spec: BuildSpec) -> BuildSpec:
    """Resolves the user functions of a request: `map`, and an input that is a function.

    Raises:
      RequestError: the module or function does not exist, or cannot be sent to workers.
    """
    if spec.map is not None and not isinstance(spec.map, UserFunction):
        name = write_map(spec.map) or ""
        spec = dataclasses.replace(spec, map=_find(spec.map, name, f"`map={name}`", spec.map_revision))
    inputs = [word for word in spec.input if names_function(word)]
    if not inputs:
        if spec.source == FUNCTIONS:
            raise RequestError(
                f"`input={spec.input[0]}`: `source={FUNCTIONS}` calls a function; expected its module and name, "
                "such as my_steps:rows",
                code="not_a_function",
            )
        return spec
    if len(spec.input) > 1:
        raise RequestError(
            f"`input={inputs[0]}`: a function is read alone; expected its parts in `parts`", code="several_inputs"
        )
    (name,) = inputs
    given = name.function if isinstance(name, GivenFunction) else name
    function = _find(given, str(name), f"`input={name}`", None)
    return dataclasses.replace(spec, input=(str(name),), input_function=function)


def _find(given: str | Callable[..., Any], named: str, shown: str, revision: str | None) -> UserFunction:
    """Finds a function, given as an object or by name.

    Args:
      given: the function, or its name.
      named: its name, as `module:function`.
      shown: the setting, for messages.
      revision: as in `UserFunction`.
    """
    module, _, name = named.partition(":")
    if isinstance(given, str):
        file = _find_module(module)
        if file is None:
            raise RequestError(
                f"{shown}: there is no module {module} in {storage.absolute('.')} or where Python looks for modules; "
                f"expected {module.replace('.', '/')}.py, for example",
                code="unknown_module",
            )
    else:
        is_plain = inspect.isfunction(given) and module != "__main__" and name.isidentifier()
        file = inspect.getsourcefile(given) if is_plain else None
        if file is None:
            return UserFunction(named, {}, revision, _pickle(given, shown))
    return _of_source(named, shown, revision, file)


def _of_source(named: str, shown: str, revision: str | None, file: str) -> UserFunction:
    """Returns the function of a module, with the source of every module of the user that the module imports."""
    module, _, name = named.partition(":")
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise RequestError(
            f"{shown}: {module} is a module of Python's own library; rename {storage.basename(file)}",
            code="shadowed_module",
        )
    root = file
    for _ in range(len(module.split(".")) + (storage.basename(file) == f"{_PACKAGE}.py")):
        root = storage.dirname(root)
    top = module.partition(".")[0] if storage.basename(root) in _INSTALLED else None
    sources: dict[str, str] = {}
    paths: dict[str, str] = {}
    waiting = [module]
    while waiting:
        found = waiting.pop()
        path = _file_of(found, root)
        package = found.partition(".")[0]
        if found in sources or path is None or (top and package != top) or package == _OURS:
            continue
        paths[found] = path
        sources[found] = storage.read_bytes(path).decode("utf-8-sig")
        try:
            tree = ast.parse(sources[found])
        except (SyntaxError, ValueError) as error:
            raise RequestError(f"{shown}: {path} is not a Python module: {error}", code="invalid_module") from error
        waiting += _imports_of(tree, found, is_package=path.endswith(f"{_PACKAGE}.py"))
        if found == module and name not in _names_of(tree):
            raise RequestError(
                f"{shown}: {path} has no function {name}; it has: {', '.join(_functions_of(tree))}",
                code="unknown_function",
            )
    return UserFunction(named, dict(sorted(sources.items())), revision, paths=paths)


def _find_module(module: str) -> str | None:
    for folder in (storage.absolute("."), *sys.path):
        if folder and (file := _file_of(module, storage.absolute(folder))):
            return file
    return None


def _file_of(module: str, root: str) -> str | None:
    """Returns the file of a module below a folder, or None."""
    path = storage.join(root, *module.split("."))
    return next((file for file in (f"{path}.py", storage.join(path, f"{_PACKAGE}.py")) if storage.is_file(file)), None)


def _imports_of(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[str]:
    """Yields the names of all modules that a module may import, anywhere in its code, and of their packages."""
    package = module if is_package else module.rpartition(".")[0]
    found = [module]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            found += [start, *(f"{start}.{alias.name}" for alias in node.names)]
    for name in found:
        words = name.split(".")
        yield from (".".join(words[:end]) for end in range(1, len(words) + 1))


def _names_of(tree: ast.Module) -> set[str]:
    """Returns the names that a module may define: functions, assigned names and imported names."""
    found = set(_functions_of(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    return found


def _functions_of(tree: ast.Module) -> list[str]:
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _pickle(function: Callable[..., Any], shown: str) -> bytes:
    """Pickles a function of a notebook or script by value, together with the modules beside the script."""
    import cloudpickle

    try:
        with _by_value(_beside_script(), cloudpickle):
            pickled: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise RequestError(
            f"{shown}: the function cannot be sent to workers: {error}; put it into a module of its own, and give the "
            "function of that module",
            code="unpicklable_function",
        ) from error
    return pickled


def pickled_by_value(function: UserFunction) -> AbstractContextManager[None]:
    """Lets Beam pickle the modules of a function by value, for workers where they are not installed."""
    from apache_beam.internal.cloudpickle import cloudpickle  # Beam's own copy, with a registry of its own.

    modules = [sys.modules[name] for name in function.sources if name in sys.modules] or _beside_script()
    return _by_value(modules, cloudpickle)


@contextlib.contextmanager
def _by_value(modules: Sequence[ModuleType], pickler: Any) -> Iterator[None]:
    try:
        for module in modules:
            pickler.register_pickle_by_value(module)
        yield
    finally:
        for module in modules:
            pickler.unregister_pickle_by_value(module)


def _beside_script() -> list[ModuleType]:
    """Returns the modules beside the running script."""
    root = storage.absolute(storage.dirname(getattr(sys.modules["__main__"], "__file__", "") or "./script"))
    return [module for module in list(sys.modules.values()) if _is_beside(module, root)]


def _is_beside(module: Any, root: str) -> bool:
    """Whether a module lies in the folder of the user's own modules."""
    file = getattr(module, "__file__", None)
    is_ours = getattr(module, "__name__", "").partition(".")[0] in ("__main__", _OURS)
    if not isinstance(file, str) or is_ours:
        return False
    return storage.absolute(file).startswith(f"{root}/") and not any(f"/{name}/" in file for name in _INSTALLED)
