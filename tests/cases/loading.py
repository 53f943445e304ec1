"""Cases of the YAML files beside this module: a tree of files, settings, and what a build of them gives.

The first case of a file is its base. Every other case has the tree and the settings of the case that `of` names, or of
the base, with its own changes:

    tree: the names of files that all have the bytes of one gray PNG; `+` stands for a space.
    images: file -> description of a picture, as `tests.pictures.picture` takes it; null removes a file.
    files: file -> text, or a value that is written as JSON, YAML, XML or Parquet by the file's extension; null removes
      a file. The content of `.gz` is compressed.
    edit: file -> changes; `annotations/0/bbox: VALUE` in a value (`+` appends), `old: new` in a text.
    drop: file -> such paths, which are removed.
    archives: archive -> its members in order, as `tests.archive_files.write_archive` takes them; null removes one.
    pack: archive -> folder whose files become its members; only the archive is written.
    damage: file -> what is done to its bytes: see `tests.archive_files.damaged`.
    counts: true shows the number of records of each split that have the same besides a gray picture; what is skipped is
      left out, and the notes of what a command gives.
    settings: those of `build`, with paths relative to the tree; null removes a setting.
    before: what the case that this one changes gives, before this one: `version`, into the same output, or `dataset`,
      which is then the input, without other settings of that case.
    gives, refused, offers, fails, failures: what happens: see `tests.cases.outcomes`.

In names of files, `{0..9}` and `{a,b}` expand as in a shell. Values may have the tags of `tests.cases.values`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import gzip
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import yaml

from tests.archive_files import FILLED, KINDS, damaged, pack_folder, write_archive
from tests.cases.values import add_tags, expand, parquet_of
from tests.pictures import picture

FOLDER = Path(__file__).parent
# What a case says that happens.
OUTCOME = ("gives", "refused", "offers", "fails", "failures")
Tree = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Case:
    """A case with all that it has from others.

    Attributes:
      area: name of its YAML file without extension.
      name: of the case.
      of: name of the case that it changes; "" for the base.
      files: file -> its picture's description, text or value.
      images: those of them that are pictures.
      archives: archive -> its members.
      pack: archive -> folder of its members.
      damage: file -> what is done to its bytes.
      counts: whether records that are alike are counted.
      settings: of the request.
      before: "version", "dataset" or "".
      stated: what the file says that happens.
    """

    area: str
    name: str
    of: str
    files: Tree
    images: frozenset[str]
    archives: Tree
    pack: Mapping[str, str]
    damage: Mapping[str, str]
    counts: bool
    settings: Tree
    before: str
    stated: Tree

    def __str__(self) -> str:
        return f"{self.area}: {self.name}"

    @functools.cached_property
    def shown(self) -> Mapping[str, str]:
        """Name of a picture -> its description: its path, an end of it, and both without extension.

        Names of several pictures that differ are not there.
        """
        files = {name: value for name, value in self.files.items() if name in self.images}
        files |= {name: "gray 8x8" for name, value in self.files.items() if value == PLAIN}
        members = {
            f"{archive}/{member.rstrip('+')}": next(iter(value.values()), None) if isinstance(value, dict) else value
            for archive, packed in self.archives.items()
            for member, value in packed.items()
        }
        found: dict[str, set[str]] = {}
        for path, value in (files | members).items():
            above = path.split("/")
            for level in range(len(above)):
                name = "/".join(above[level:])
                for one in {name, re.sub(r"\.[^./]*$", "", name)}:
                    found.setdefault(one, set()).add(str(value))
        return {name: min(descriptions) for name, descriptions in found.items() if len(descriptions) == 1}

    def write(self, root: Path) -> None:
        """Writes the tree below a folder, but for files that are there."""
        for name, value in self.files.items():
            path, content = root / name, picture(value, name) if name in self.images else content_of(name, value)
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
        for name, members in self.archives.items():
            write_archive(root / name, {member: _member(member, value) for member, value in members.items()})
        for name, folder in self.pack.items():
            pack_folder(root / folder, root / name)
        for folder in {*self.pack.values()}:
            shutil.rmtree(root / folder)
        for name, how in self.damage.items():
            (root / name).write_bytes(damaged((root / name).read_bytes(), how))


def read_cases() -> list[Case]:
    """Returns the cases of all files."""
    return [case for path in sorted(FOLDER.glob("*.yaml")) for case in read_area(path.stem).values()]


@functools.cache
def read_area(area: str) -> dict[str, Case]:
    """Returns the cases of a file by their names."""
    cases: dict[str, Case] = {}
    for name, stated in yaml.load((FOLDER / f"{area}.yaml").read_text(encoding="utf-8"), _Loader).items():
        of = stated.pop("of", next(iter(cases), ""))
        cases[name] = _change(cases[of] if of else _EMPTY, area, name, stated)
    return cases


# Rejected samples do not stop a build, so that a case shows all of them.
_DEFAULTS = {"max_failures": 1, "image_encoding": "png"}
PLAIN = picture("gray 8x8")
_EMPTY = Case("", "", "", {}, frozenset(), {}, {}, {}, False, _DEFAULTS, "", {})
# What is built before a case -> settings that go with it.
_BEFORE = {"version": {"versioned": True, "guard": "off"}, "dataset": {"input": "built", "max_failures": 1}}
_LINES = (".jsonl", ".ndjson", ".odgt", ".manifest")
# Members of these names are pictures; a mapping stands for a member that is no file, or has other bytes.
_PICTURE = re.compile(r"\.(?:png|jpe?g)\+*$", re.IGNORECASE)


class _Loader(yaml.CSafeLoader):
    """Refuses a case or a file that is there twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"twice: {sorted(key for key in keys if keys.count(key) > 1)}"
        return super().construct_mapping(node, deep)


add_tags(_Loader)


def _change(base: Case, area: str, name: str, stated: Tree) -> Case:
    known = {"tree", "images", "files", "edit", "drop", "archives", "pack", "damage", "counts", "settings"}
    assert stated.keys() <= {*known, "before", *OUTCOME}, f"{name}: {stated.keys() - known}"
    before = stated.get("before", "")
    images = {name: value for names, value in stated.get("images", {}).items() for name in expand(names)}
    plain = {name.replace("+", " "): PLAIN for word in stated.get("tree", "").split() for name in expand(word)}
    others = plain | {name: value for names, value in stated.get("files", {}).items() for name in expand(names)}
    files = {name: value for name, value in {**base.files, **images, **others}.items() if value is not None}
    for path, changes in stated.get("edit", {}).items():
        for place, value in changes.items():
            files[path] = _edited(files[path], place, value)
    for path, places in stated.get("drop", {}).items():
        for place in places:
            files[path] = copy.deepcopy(files[path])
            *above, last = map(_index, place.split("/"))
            del functools.reduce(lambda value, key: value[key], above, files[path])[last]
    pack, damage, settings = (
        _merged(above, stated.get(key, {}))
        for key, above in (("pack", base.pack), ("damage", base.damage), ("settings", base.settings))
    )
    if before:
        above = {} if before == "dataset" else base.settings
        settings = _merged(above, {**_BEFORE[before], **stated.get("settings", {})})
    packed = stated.get("archives", {})
    members = {name: _merged(base.archives.get(name, {}), some) for name, some in packed.items() if some is not None}
    archives = _merged(base.archives, {**packed, **members})
    pictures = (base.images | images.keys()) - others.keys()
    happens = {key: stated[key] for key in OUTCOME if key in stated}
    given = archives, pack, damage, stated.get("counts", base.counts), settings, before, happens
    return Case(area, name, base.name, files, frozenset(pictures), *given)


def _merged(above: Mapping[str, Any], stated: Mapping[str, Any]) -> Tree:
    return {name: value for name, value in {**above, **stated}.items() if value is not None}


def _member(name: str, value: Any) -> Any:
    """Returns the bytes of a member of an archive, or the mapping that describes another member."""
    if isinstance(value, dict) and len(value) == 1 and value.keys() <= KINDS:
        return {kind: _member(name, inner) if kind in FILLED else inner for kind, inner in value.items()}
    if isinstance(value, str) and _PICTURE.search(name):
        return picture(value, name.rstrip("+"))
    return content_of(name.rstrip("+"), value)


def _edited(content: Any, place: str, value: Any) -> Any:
    if isinstance(content, str):
        assert place in content, place
        return content.replace(place, value)
    content = copy.deepcopy(content)
    *above, last = map(_index, place.split("/"))
    inner = functools.reduce(lambda found, key: found[key], above, content)
    if last == "+":
        inner.append(value)
    else:
        inner[last] = value
    return content


def _index(word: str) -> str | int:
    return int(word) if word.isdecimal() else word


def content_of(name: str, value: Any) -> bytes:
    if name.endswith(".gz") and not isinstance(value, bytes):
        return gzip.compress(content_of(name.removesuffix(".gz"), value), mtime=0)
    if isinstance(value, bytes):
        return value
    if name.endswith(".parquet") and not isinstance(value, str):
        return parquet_of(value)
    if not isinstance(value, str):
        if name.endswith(".xml"):
            value = "".join(_xml(value))
        elif name.endswith((".yaml", ".yml")):
            value = yaml.safe_dump(value)
        elif name.endswith(_LINES):
            value = "".join(json.dumps(row) + "\n" for row in value)
        else:
            # YAML has no single surrogates: '\\ud800' stands for one.
            value = json.dumps(value).replace("\\\\u", "\\u")
    return value.encode()


def _xml(value: Mapping[str, Any]) -> Iterator[str]:
    """Yields the elements of a mapping; a list stands for several elements of one name."""
    for name, inner in value.items():
        for one in inner if isinstance(inner, list) else [inner]:
            yield f"<{name}>{''.join(_xml(one)) if isinstance(one, dict) else escape(str(one))}</{name}>"
