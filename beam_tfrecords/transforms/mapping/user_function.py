"""A user's function, sent to workers by value: as the source of its module, or pickled if it has no source.

A pickle alone is not enough. cloudpickle cannot send functions by value if their module has a lock, a
`threading.local`, a database or an `lru_cache`. It sends a module's table of 30 MB with each function that uses it,
while the source makes the table in each worker. And its bytes for a set of words differ between processes, so that no
build could resume. The source alone is not enough for notebooks and scripts, which cannot be imported.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.abc
import importlib.machinery
import os
import pickle
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beam_tfrecords.transforms.identity import digest

# Digest -> function that this process has loaded.
_loaded: dict[str, Callable[[Any], Any]] = {}


def name_of(function: Callable[..., Any]) -> str:
    """Returns the name of a function, or of the type of another callable, as `module:function`."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


@dataclasses.dataclass(frozen=True)
class UserFunction:
    """A user's function and its identity.

    Attributes:
      name: name as `module:function`.
      sources: module -> its source, for the module of the function and modules beside it that it imports; empty if the
        function is pickled.
      revision: the user's word for the state of everything that the source does not show, such as a file that it reads.
      pickled: the pickled function; b"" if its source is known.
      paths: module -> its file, for tracebacks.
    """

    name: str
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict)
    revision: str | None = None
    pickled: bytes = b""
    paths: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)

    @functools.cached_property
    def identity(self) -> str:
        """16 hex digits that change with the source and with the revision."""
        return digest(self)

    def to_json(self) -> dict[str, Any]:
        """Returns the entry for the manifest."""
        return {"function": self.name, "modules": sorted(self.sources), "identity": self.identity}

    def load(self) -> Callable[[Any], Any]:
        """Loads the function in this process.

        Raises:
          Exception: any error that the module raises when it is imported.
        """
        identity = self.identity
        if identity not in _loaded:
            _loaded[identity] = pickle.loads(self.pickled) if self.pickled else self._import()
        return _loaded[identity]

    def describe(self, error: BaseException) -> str:
        """Describes an error that the function raised in one line, with the user's file and line number."""
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if frame.filename in self.paths.values()] or frames
        # Published failures say nothing about the folders of this machine.
        where = f" ({os.path.basename(theirs[-1].filename)}:{theirs[-1].lineno})" if theirs else ""
        return f"{' '.join(f'{type(error).__name__}: {error}'.split())[:500]}{where}"

    def _import(self) -> Callable[[Any], Any]:
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _SourceFinder)]
        sys.meta_path.insert(0, _SourceFinder(self.sources, self.paths))
        # Modules that are already imported under these names may be older, or other modules.
        imported = {one: sys.modules.pop(one, None) for one in self.sources}
        module, _, name = self.name.partition(":")
        try:
            function: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
        finally:
            # The caller keeps its modules: objects of a class cannot be pickled if another module has its name.
            for one, theirs in imported.items():
                if theirs is not None and getattr(theirs, "__file__", None) == self.paths.get(one):
                    sys.modules[one] = theirs
        return function


class _SourceFinder(importlib.abc.MetaPathFinder):
    """Finds modules by their sources, with priority over installed modules."""

    def __init__(self, sources: Mapping[str, str], paths: Mapping[str, str]) -> None:
        self._sources, self._paths = sources, paths

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._sources:
            return None
        origin = self._paths.get(fullname, f"<{fullname}>")
        loader = _SourceLoader(self._sources[fullname], origin)
        is_package = origin.endswith("__init__.py")
        spec = importlib.machinery.ModuleSpec(fullname, loader, origin=origin, is_package=is_package)
        spec.has_location = True
        return spec


class _SourceLoader(importlib.abc.InspectLoader):
    def __init__(self, source: str, path: str) -> None:
        self._source, self._path = source, path

    def get_source(self, fullname: str) -> str:
        return self._source

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compile(self._source, self._path, "exec"), module.__dict__)
