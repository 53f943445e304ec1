"""Builds the tree of each case, and compares what happens with the case's file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import BuildError, RequestError, build
from tests.cases.loading import Case, read_area, read_cases
from tests.cases.outcomes import UNTOLD, expected, in_order, update
from tests.published import Published, Record, read_failures, read_published
from tests.refusals import expect


@pytest.mark.parametrize("case", read_cases(), ids=str)
def test_case(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    previous = build_before(case, tmp_path) if case.before else ""
    case.write(Path())
    outcome = Outcome(case, tmp_path, previous).of(case.settings)
    if pytestconfig.getoption("--update-cases", False):
        assert not hasattr(pytestconfig, "workerinput"), "one process writes the file"
        update(case, outcome)
        return
    assert in_order(outcome) == in_order(expected(case)), "if what happens is right: pytest tests/cases --update-cases"


def build_before(case: Case, folder: Path) -> str:
    """Builds the case that a case changes, and leaves the files that both have; returns the path of the dataset."""
    above = read_area(case.area)[case.of]
    above.write(Path())
    if case.before == "dataset":
        return build(output="built", quiet=True, **above.settings).path
    dataset = build(output=str(folder / "out1"), quiet=True, **{**above.settings, "versioned": True})
    for name in above.files.keys() - case.files.keys():
        Path(name).unlink()
    return dataset.path


class Outcome:
    """What happens to requests for the tree of a case, without names of temporary folders."""

    def __init__(self, case: Case, folder: Path, previous: str) -> None:
        self._folder, self._builds, self._previous = folder, 0, previous
        self._counts, self._is_version, self._pictures = case.counts, case.before == "version", case.shown

    def of(self, settings: Mapping[str, Any], *, is_offered: bool = False) -> Any:
        """Returns what a request gives; that of an offer must not be refused."""
        self._builds += 1
        output = self._folder / f"out{self._builds}"
        try:
            dataset = build(output=str(output), quiet=True, **settings)
        except RequestError as error:
            if is_offered:
                raise
            return self._refusal(settings, error)
        except BuildError as error:
            failures = self._failures(read_failures(output)) if (output / "failures.jsonl").exists() else {}
            return {"fails": self._shown(str(error)), **({"failures": failures} if failures else {})}
        published = read_published(dataset.path)
        if self._is_version:
            of_versions = ("versioned", "guard", "accept")
            plain = {name: value for name, value in settings.items() if name not in of_versions}
            fresh = build(output=f"{output}-fresh", quiet=True, **plain)
            assert [*read_published(fresh.path).shards.values()] == [*published.shards.values()]
        return self._published(published)

    def _refusal(self, settings: Mapping[str, Any], error: RequestError) -> dict[str, Any]:
        expect(error.code, *error.settings).check(error)
        offers = {}
        for reading in error.suggestions:
            changed = {name: value for name, value in {**settings, **reading.settings}.items() if value is not None}
            found = self.of(changed, is_offered=True)
            if self._counts:
                found = {name: value for name, value in found.items() if name not in UNTOLD}
            offers[self._shown(str(reading).replace("`", ""))] = found
        return {"refused": f"{error.code}: {self._shown(error.message)}", **({"offers": offers} if offers else {})}

    def _published(self, published: Published) -> dict[str, Any]:
        manifest, records = published.manifest, sorted(published.records, key=lambda one: (one.split, one.key))
        counts = {name: count for name, count in manifest["objects"].items() if name != "written"}
        names = ("filtered", "dropped_duplicates", "merged_rows", "replaced_members", "damaged_containers")
        counts |= {name: manifest[name] for name in names if manifest[name]}
        if self._is_version:
            is_new = published.path != self._previous
            counts |= {name: count for name, count in manifest["reuse"].items() if count} if is_new else {"new": 0}
        shown = {f"{one.split} {one.key}": self._describe(published, one) for one in records}
        classes = manifest["class_names"]
        gives = {
            "classes": "" if classes == sorted(words_of(shown.values()) & {*classes}) else ", ".join(classes),
            "records": shown,
            "failures": self._failures(published.failures),
            "counts": counts,
            "skipped": {
                kind: f"{one['files']}: {', '.join(one['examples'])}" for kind, one in manifest["skipped"].items()
            },
            "ledger": _ledger(manifest["ledger"]),
            "notes": [self._shown(note) for note in manifest["notes"]],
        }
        gives = {name: value for name, value in gives.items() if value}
        return count_alike(gives) if self._counts else gives

    def _describe(self, published: Published, record: Record) -> str:
        """Returns what a record has, with `image` for the picture that the tree has by the record's key."""
        shown, *rest = published.describe(record).split("; ", 1)
        is_told = not self._counts and self._pictures.get(record.key) == shown
        return "; ".join(["image" if is_told else shown, *rest])

    def _failures(self, failures: Mapping[str, str]) -> dict[str, str]:
        return {key: self._shown(text) for key, text in failures.items()}

    def _shown(self, text: str) -> str:
        text = text.replace(f"{self._folder}/in", "/data").replace(str(self._folder), "/tmp")
        return re.sub(r"/tmp/out\d+\b", "/tmp/out", text)


def words_of(texts: Iterable[str]) -> set[str]:
    """Returns labels and the classes of objects in what records have, and other words."""
    box = r" -?[\d.]+(?:,-?[\d.]+){3}.*"
    parts = (word for text in texts for word in re.split(r"; | \+ | \| ", text))
    return {re.sub(box, "", word) for word in parts}


def count_alike(gives: Mapping[str, Any]) -> dict[str, Any]:
    """Returns split -> number of records that have the same besides a gray picture; leaves out what is skipped."""
    counts: dict[str, Counter[str]] = {}
    for name, shown in gives["records"].items():
        without = "; ".join(part for part in shown.split("; ") if part != "gray 8x8")
        counts.setdefault(name.partition(" ")[0], Counter())[without] += 1
    counted = {split: ", ".join(f"{n} {what}".strip() for what, n in count.items()) for split, count in counts.items()}
    return {**counted, **{name: value for name, value in gives.items() if name not in ("records", "skipped")}}


def _ledger(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns file -> what happens to its fields."""
    by_file: dict[str, list[str]] = {}
    for one in entries:
        words = [one["detail"], *([str(one["count"])] if one["count"] else [])]
        shown = f"{one['field']} ({', '.join(filter(None, words))})"
        fate = "" if one["fate"] == "not stored" else f"{one['fate']}: "
        by_file.setdefault(one["file"] or "classes", []).append(fate + shown)
    return {file: ", ".join(fields) for file, fields in by_file.items()}
