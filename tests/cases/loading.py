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
    gives: what happens, which `pytest tests/cases --update-cases` writes: of a published dataset only the difference
      from the case that this one changes; null stands for what is gone.

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
      gives: what the file says that happens; None in a new case.
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
    gives: Any

    def __str__(self) -> str:
        return f"{self.area}: {self.name}"

    def write(self, root: Path) -> None:
        """Writes the tree below a folder, but for files that are there."""
        for name, value in self.files.items():
            path, content = root / name, picture(value, name) if name in self.images else _content(name, value)
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


# Characters of a collection that is written in one line.
_SHORT = 100
# Rejected samples do not stop a build, so that a case shows all of them.
_DEFAULTS = {"max_failures": 1, "image_encoding": "png"}
PLAIN = picture("gray 8x8")
_EMPTY = Case("", "", "", {}, frozenset(), {}, {}, {}, False, _DEFAULTS, "", None)
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
    assert stated.keys() <= known | {"before", "gives"}, f"{name}: {stated.keys() - known}"
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
    given = archives, pack, damage, stated.get("counts", base.counts), settings, before, stated.get("gives")
    return Case(area, name, base.name, files, frozenset(pictures), *given)


def _merged(above: Mapping[str, Any], stated: Mapping[str, Any]) -> Tree:
    return {name: value for name, value in {**above, **stated}.items() if value is not None}


def _member(name: str, value: Any) -> Any:
    """Returns the bytes of a member of an archive, or the mapping that describes another member."""
    if isinstance(value, dict) and len(value) == 1 and value.keys() <= KINDS:
        return {kind: _member(name, inner) if kind in FILLED else inner for kind, inner in value.items()}
    if isinstance(value, str) and _PICTURE.search(name):
        return picture(value, name.rstrip("+"))
    return _content(name.rstrip("+"), value)


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


def _content(name: str, value: Any) -> bytes:
    if name.endswith(".gz") and not isinstance(value, bytes):
        return gzip.compress(_content(name.removesuffix(".gz"), value), mtime=0)
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


def published_by(case: Case | None) -> Tree:
    """Returns the whole of what a case publishes, or the nearest of those that it changes."""
    if case is None:
        return {}
    above = published_by(read_area(case.area)[case.of] if case.of else None)
    gives = case.gives or {}
    if gives == SAME or "refused" in gives or "fails" in gives:
        return above
    return {
        name: {**above.get(name, {}), **value} if isinstance(value, dict) else value
        for name, value in {**above, **gives}.items()
    }


SAME = "the same"


def difference(gives: Tree, above: Tree) -> Any:
    """Returns what differs from the whole that another case publishes."""
    changed: Tree = {}
    for name in dict.fromkeys([*gives, *above]):
        new, old = gives.get(name), above.get(name)
        if isinstance(new, dict) and isinstance(old, dict):
            new = {key: new.get(key) for key in sorted(new.keys() | old.keys()) if new.get(key) != old.get(key)} or old
        if new != old:
            changed[name] = new
    return changed or SAME


def update(case: Case, gives: Any) -> None:
    """Writes what a case gives into its file, and leaves all other lines as they are."""
    path = FOLDER / f"{case.area}.yaml"
    lines = path.read_text(encoding="utf-8").splitlines()
    names = [_name_at(line) for line in lines]
    begin = names.index(case.name) + 1
    end = next((number for number in range(begin, len(lines)) if names[number] is not None), len(lines))
    block = lines[begin:end]
    tail = []
    while block and (not block[-1].strip() or block[-1].startswith("#")):
        tail.insert(0, block.pop())
    begin_of_gives = next((number for number, line in enumerate(block) if line.startswith("  gives:")), len(block))
    block = block[:begin_of_gives]
    written = yaml.dump(gives, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10_000).splitlines()
    is_block = isinstance(gives, dict) and not written[0].startswith("{")
    block += ["  gives:", *(f"    {line}" for line in written)] if is_block else [f"  gives: {written[0]}"]
    path.write_text("\n".join([*lines[:begin], *block, *tail, *lines[end:]]) + "\n", encoding="utf-8")
    read_area.cache_clear()


def _name_at(line: str) -> str | None:
    """Returns the name of the case that a line begins."""
    if not line or line[0] in " #":
        return None
    (name,) = yaml.safe_load(line)
    return str(name)


class _Dumper(yaml.SafeDumper):
    """Indents lists; writes collections that fit into a line in one."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)

    def represent_sequence(self, tag: str, sequence: Any, flow_style: Any = None) -> Any:
        return super().represent_sequence(tag, sequence, len(str(sequence)) < _SHORT)

    def represent_mapping(self, tag: str, mapping: Any, flow_style: Any = None) -> Any:
        return super().represent_mapping(tag, mapping, len(str(mapping)) < _SHORT)
