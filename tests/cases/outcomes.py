"""What the file of a case says that happens, which `pytest tests/cases --update-cases` writes.

    gives: what is published, or `the same`.
    refused: code and message of a refusal, or `the same`.
    offers: command of a refusal -> what it gives, or `the same`.
    fails: the message of a build that fails.
    failures: its rejected samples.

A case without them has those of the case that it changes. Of what is published only the difference from the nearest
case above that publishes is written, and null stands for what is gone; or `all records`, if that is shorter: then
nothing else of that case is left. An offer that the nearest case above that is refused has too is written as the
difference from that one; `each` of the offers has what all of them give. `refused: the same` has the message and the
offers of that case, and `offers: the same` its offers. Records that say the same are one line, and so are failures;
braces in their names expand as in a shell. `image` is the picture that the tree has by the record's key.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from tests.cases.loading import FOLDER, OUTCOME, Case, Tree, read_area
from tests.cases.values import expand

SAME = "the same"
# Among the offers: parts of each of them.
_EACH = "each"
# Characters of a line.
_WIDTH = 120
# Names of parts of an outcome whose names may have braces.
_GROUPED = ("records", "failures")
_ALL = "all records"
# Parts of an outcome; those of cases that count are splits, which stand before the records.
_ORDER = ("classes", "fails", "records", "failures", "counts", "skipped", "ledger", "notes")


def expected(case: Case) -> Tree:
    """Returns the whole of what a case's file says that happens."""
    stated = case.stated
    if not stated:
        return expected(read_area(case.area)[case.of]) if case.of else {}
    if "fails" in stated:
        return _spread(stated)
    if stated.get("refused") == SAME:
        return _above(case, "refused")
    if "refused" not in stated:
        return _changed(stated["gives"], _above(case))
    offers = stated.get("offers", {})
    if offers == SAME:
        offers = _above(case, "refused")["offers"]
    else:
        each, given = offers.get(_EACH, {}), {name: one for name, one in offers.items() if name != _EACH}
        offers = {
            command: _changed({**each, **one} if each else one, _above_offer(case, command))
            for command, one in given.items()
        }
    return {"refused": stated["refused"], **({"offers": offers} if offers else {})}


def stated(case: Case, outcome: Tree) -> Tree:
    """Returns what the file of a case says for the whole of what happens."""
    if case.of and in_order(outcome) == in_order(expected(read_area(case.area)[case.of])):
        return {}
    if "fails" in outcome:
        return _group(outcome)
    if "refused" not in outcome:
        return {"gives": _difference(outcome, _above(case))}
    above = _above(case, "refused")
    if in_order(outcome) == in_order(above):
        return {"refused": SAME}
    offers: Any = outcome.get("offers", {})
    if offers and [*offers.items()] == [*above.get("offers", {}).items()]:
        offers = SAME
    else:
        offers = _with_each({
            command: _group(given) if "fails" in given else _difference(given, _above_offer(case, command))
            for command, given in offers.items()
        })  # fmt: skip
    return {"refused": outcome["refused"], **({"offers": offers} if offers else {})}


def in_order(outcome: Tree) -> tuple[Tree, Sequence[str]]:
    """Returns what happens, and the order of the offers: users take the first one."""
    return outcome, [*outcome.get("offers", ())]


def _with_each(offers: Tree) -> Tree:
    """Returns offers with what all of them give in its own place, if they take fewer lines so."""
    if len(offers) < 2 or SAME in offers.values():
        return offers
    first, *others = offers.values()
    each = {name: one for name, one in first.items() if all(other.get(name, ...) == one for other in others)}
    left = {command: {name: one[name] for name in one if name not in each} for command, one in offers.items()}
    return min(offers, {_EACH: each, **left}, key=lambda one: len(_written({"offers": one}, 2)))


def _above(case: Case, kind: str = "") -> Tree:
    """Returns the outcome of the nearest case that a case changes which is refused, or which publishes."""
    while case.of:
        case = read_area(case.area)[case.of]
        outcome = expected(case)
        if kind in outcome if kind else not {"refused", "fails"} & outcome.keys():
            return outcome
    return {}


def _above_offer(case: Case, command: str) -> Tree:
    """Returns what an offer of a case is compared with."""
    offered = _above(case, "refused").get("offers", {}).get(command, {})
    above = offered if offered and "fails" not in offered else _above(case)
    left_out = UNTOLD if case.counts else ()
    return {name: value for name, value in above.items() if name not in left_out}


# Parts of what an offer gives that a case which counts does not tell.
UNTOLD = ("notes", "ledger")


def _changed(given: Any, above: Tree) -> Tree:
    if given == SAME:
        return above
    if "fails" in given:
        return _spread(given)
    if _ALL in given:
        return _spread({"records" if name == _ALL else name: value for name, value in given.items()})
    parts = {
        name: {**above.get(name, {}), **value} if isinstance(value, dict) else value
        for name, value in {**above, **_spread(given)}.items()
    }
    return {name: value for name, value in map(_without_nulls, parts.items()) if value}


def _without_nulls(part: tuple[str, Any]) -> tuple[str, Any]:
    name, value = part
    return name, {key: one for key, one in value.items() if one is not None} if isinstance(value, dict) else value


def _difference(outcome: Tree, above: Tree) -> Any:
    changed: Tree = {}
    for name in dict.fromkeys([*outcome, *above]):
        new, old = outcome.get(name), above.get(name)
        if new == old:
            continue
        if isinstance(new, dict) and isinstance(old, dict):
            new = {key: new.get(key) for key in sorted(new.keys() | old.keys()) if new.get(key) != old.get(key)}
        changed[name] = new
    if not changed:
        return SAME
    whole = {_ALL if name == "records" and above else name: value for name, value in _group(outcome).items()}
    options = [_group(changed), *([whole] if _ALL in whole else [])]
    return min(options, key=lambda one: (len(lines := _written({"gives": one}, 0)), len("".join(lines))))


def _spread(given: Tree) -> Tree:
    """Returns parts with a line for each name."""
    return {
        part: {one: text for names, text in value.items() for one in expand(names)}
        if part in _GROUPED and isinstance(value, dict)
        else value
        for part, value in given.items()
    }


def _group(whole: Tree) -> Tree:
    """Returns parts in their order, with one line for the names of a split that have the same text."""
    return {
        part: _group_names(value) if part in _GROUPED and isinstance(value, dict) else value
        for part, value in sorted(whole.items(), key=lambda one: _ORDER.index(one[0]) if one[0] in _ORDER else 1)
    }


def _group_names(texts: Mapping[str, Any]) -> Tree:
    alike: dict[Any, list[str]] = {}
    for name, text in sorted(texts.items()):
        alike.setdefault((name.partition(" ")[0] if " " in name else "", text), []).append(name)
    return {written: text for (_, text), names in alike.items() for written in _braces(names)}


def _braces(names: list[str]) -> list[str]:
    """Returns a name with braces for several, or the names if they have braces of their own."""
    before = _common_start(names).rstrip("0123456789")
    after = _common_start([name[len(before) :][::-1] for name in names])[::-1].lstrip("0123456789")
    inside = [name[len(before) : len(name) - len(after)] for name in names]
    if all(map(str.isdecimal, inside)):
        inside.sort(key=int)
    listed = f"{before}{{{','.join(inside)}}}{after}"
    ranged = f"{before}{{{inside[0]}..{inside[-1]}}}{after}"
    for written in (ranged, listed):
        if len(names) > 1 and sorted(expand(written)) == sorted(names):
            return [written]
    return names


def _common_start(names: list[str]) -> str:
    places = zip(*names, strict=False)
    return "".join(one[0] for one in itertools.takewhile(lambda one: len({*one}) == 1, places))


def update(case: Case, outcome: Tree) -> None:
    """Writes what happens to a case into its file, and leaves all other lines as they are."""
    path = FOLDER / f"{case.area}.yaml"
    lines = path.read_text(encoding="utf-8").splitlines()
    names = [_name_at(line) for line in lines]
    begin = names.index(case.name)
    end = next((number for number in range(begin + 1, len(lines)) if names[number] is not None), len(lines))
    block, says = lines[begin:end], [f"  {line}" for line in _written(stated(case, outcome), 2)]
    tail = []
    while not block[-1].strip() or block[-1].startswith("#"):
        tail.insert(0, block.pop())
    if says and len(block) == 1:
        block = _in_lines(*block)
    given = itertools.takewhile(lambda line: not line.startswith(tuple(f"  {key}:" for key in OUTCOME)), block)
    path.write_text("\n".join([*lines[:begin], *given, *says, *tail, *lines[end:]]) + "\n", encoding="utf-8")
    read_area.cache_clear()
    assert expected(read_area(case.area)[case.name]) == outcome, f"cannot be written: {outcome}"


def _name_at(line: str) -> str | None:
    """Returns the name of the case that a line begins."""
    if not line or line[0] in " #":
        return None
    # Behind the beginnings of the stream, the document and the mapping.
    (name,) = itertools.islice(yaml.parse(line), 3, 4)
    return str(name.value)


def _in_lines(case: str) -> list[str]:
    """Returns the lines of a case that may have its parts in one line."""
    ((name, parts),) = yaml.compose(case).value
    inner = parts.value if isinstance(parts, yaml.MappingNode) else []
    shown = [case[key.start_mark.index : value.end_mark.index].rstrip() for key, value in inner]
    return [f"{case[: name.end_mark.index]}:", *(f"  {part}" for part in shown)]


def _written(whole: Tree, indent: int) -> list[str]:
    """Returns the lines of a mapping; a part that fits into a line, or has one value alone, has one."""
    lines = []
    for name, value in whole.items():
        if not value or not isinstance(value, dict | list):
            lines.append(_dump({name: value}))
            continue
        line = _dump({name: value}, is_flow=True)[1:-1]
        if indent + len(line) <= _WIDTH or _is_one(value):
            lines.append(line)
            continue
        inner = _written(value, indent + 2) if isinstance(value, dict) else [_dump([one]) for one in value]
        lines += [_dump({name: None}).removesuffix(" null"), *(f"  {line}" for line in inner)]
    return lines


def _is_one(value: Any) -> bool:
    """Returns whether a part has one value alone, however deep."""
    inner = [*value.values()] if isinstance(value, dict) else value
    return not isinstance(inner, list) or (len(inner) == 1 and _is_one(inner[0]))


def _dump(value: Any, *, is_flow: bool = False) -> str:
    options: Any = {"default_flow_style": is_flow, "allow_unicode": True, "sort_keys": False, "width": 10_000}
    return yaml.dump(value, Dumper=_Dumper, **options).rstrip()


class _Dumper(yaml.SafeDumper):
    """Writes a text in one line, and a long name like a short one."""

    def check_simple_key(self) -> bool:
        return isinstance(self.event, yaml.ScalarEvent) or super().check_simple_key()


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
