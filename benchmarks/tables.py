"""Writes the tables of docs/benchmarks.md from benchmarks/results; `make bench` ends with it.

    python benchmarks/tables.py

A table stands below a line `<!-- benchmarks/tables.py: NAME -->`.
"""

from __future__ import annotations

import json
import pathlib
import re
import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from figures import RESULTS, spread_of, spreads_of_ratios

_PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
_TABLE = re.compile(r"^(<!-- benchmarks/tables\.py: (\w+) -->\n)(?:\|.*\n)*", re.MULTILINE)
_OURS, _CODEC = "beam_tfrecords", "own_codec"

Row = Mapping[str, Any]


def _read(name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return results


def _format(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    first, *rest = (f"|{''.join(f' {cell} |' if cell else ' |' for cell in cells)}\n" for cells in (head, *rows))
    return f"{first}|{'---|' * (first.count('|') - 1)}\n{''.join(rest)}"


def _photos(results: Row) -> str:
    return f"{results['count']:,} photos of {results['size']}"


def _contest(name: str, *, without: str = "") -> str:
    """Returns a row per contestant."""
    results = _read(name)
    rows = []
    for row in results["summary"]:
        if row["contestant"] == without:
            continue
        is_ours = row["contestant"] == _OURS
        title = f"**{row['title']}**" if is_ours else row["title"]
        lost = f" (lost up to {row['lost']:,} photos in a run)" if row["lost"] else ""
        spread = f"{row['slowest']:,.0f} to {row['fastest']:,.0f}"
        ratio = "" if is_ours else f"{row['ratio']:.2f}x"
        rows.append([title + lost, f"{row['rate']:,.0f}", spread, ratio, f"{row['peak_bytes'] / 1e6:,.0f} MB"])
    columns = ("images/s", "slowest to fastest", "beam-tfrecords against it", "peak memory")
    return _format([_photos(results), *columns], rows)


def _overhead(*names: str) -> str:
    """Returns how much longer a build takes than its codec in a bare pool."""
    head, ours, codec, longer = [""], ["**beam-tfrecords**"], ["its codec in a bare pool"], ["longer, median of rounds"]
    for name in names:
        results = _read(name)
        timed = [run for run in results["runs"] if run["peak_bytes"] is None]
        for contestant, row in ((_OURS, ours), (_CODEC, codec)):
            seconds = statistics.median(run["seconds"] for run in timed if run["contestant"] == contestant)
            row.append(f"{seconds:.1f} s")
        (ratio,) = (row["ratio"] for row in results["summary"] if row["contestant"] == _CODEC)
        head.append(f"{results['count']:,} photos")
        longer.append(f"{1 / ratio - 1:.0%}")
    return _format(head, (ours, codec, longer))


def _reuse() -> str:
    """Returns the time of a build after a change, as a share of the first build of its round."""
    results = _read("reuse_8000")
    titles = {
        "next": "next version",
        "from scratch": "the same from scratch",
        "unchanged": "again, with nothing changed",
    }
    rows = []
    for key, title in titles.items():
        pairs = zip(results["seconds"][key], results["seconds"]["first"], strict=True)
        rows.append((title, f"{statistics.median(seconds / of for seconds, of in pairs):.0%}"))
    return _format([_photos(results), "of the time of the first version"], rows)


_KINDS = {
    "png": "PNG files to PNG",
    "jpeg": "JPEG files to JPEG",
    "keep": "PNG files kept",
    "parquet": "rows of a Parquet file",
    "csv": "rows of a CSV file",
}


def _small_samples() -> str:
    """Returns small images and rows against bare loops."""
    rows = []
    for kind, found in _read("small_samples_60000")["kinds"].items():
        bare, ours = found["bare loop"], found["beam-tfrecords"]
        pairs = list(zip(bare, ours, strict=True))
        rows.append(
            [
                f"{found['samples']:,} {_KINDS[kind]}",
                spread_of((found["samples"] / one for one, _ in ours), ",.0f"),
                f"{statistics.median(found['samples'] / one for one, _ in bare):,.0f}",
                spread_of((one[0] / other[0] for one, other in pairs), ".2f"),
                f"{statistics.median(one[1] / other[1] for one, other in pairs):.2f}",
            ]
        )
    return _format(["", "samples/s", "the bare loop", "of its rate", "of its rate by processor time"], rows)


def _readers() -> str:
    """Returns the rate of every reader, and its ratio to the readers that it is compared with."""
    results = _read("readers_8000")
    ratios: dict[str, list[str]] = {}
    for pair, values in results["against"].items():
        own, _, other = pair.partition(" against ")
        ratios.setdefault(own, []).append(f"{statistics.median(values):.2f}x {other.partition(',')[0]}")
    rates = sorted(results["rates"].items(), key=lambda item: -statistics.median(item[1]))
    rows = (
        (
            title,
            f"{statistics.median(one):,.0f}",
            f"{min(one):,.0f} to {max(one):,.0f}",
            ", ".join(ratios.get(title, ())),
        )
        for title, one in rates
    )
    return _format([_photos(results), "images/s", "slowest to fastest", "against"], rows)


def _against() -> str:
    """Returns how many times as fast the measured code is as an earlier commit."""
    results = _read("against_8000")
    rows = []
    for name, runs in results["runs"].items():
        seconds = f"{statistics.median(one[0] for one in runs['now']):.1f} s"
        rows.append((results["titles"][name], seconds, *spreads_of_ratios(runs["earlier"], runs["now"])))
    return _format([_photos(results), "time", f"against {results['earlier']}", "by processor time"], rows)


def _near_duplicates() -> str:
    """Returns the processor time of builds by the distance at which near-duplicates are listed."""
    results = _read("near_duplicates_40000")
    times = results["processor_seconds"].items()
    rows = ((f"`--near_duplicates={distance}`", f"{statistics.median(seconds):.1f} s") for distance, seconds in times)
    return _format([_photos(results), "processor time of a build"], rows)


def _growth() -> str:
    """Returns the cost of cases from their second size on; the first is start-up."""
    rows = []
    for case in _read("growth")["cases"].values():
        for command, measured in case["steps"].items():
            sizes = ", ".join(f"{one['size']:,}" for one in measured[1:])
            cells = [f"{sizes} {case['unit']}" + (f": {command}" if command != "convert" else "")]
            for name in ("peak_bytes", "largest_bytes"):
                cells.append(", ".join(f"{one[name] / 1e6:,.0f}" if one[name] else "?" for one in measured[1:]))
            cells.append(", ".join(f"{one['processor_seconds']:.1f}" for one in measured[1:]))
            growth = measured[-1]["growth"]
            rows.append([*cells, "" if growth is None else f"{growth:.2f}"])
    return _format(["", "all processes, MB", "the largest, MB", "processor time, s", "growth"], rows)


def _measured() -> str:
    """Returns where, when and with which commit each result was measured."""
    rows = []
    for path in sorted(RESULTS.glob("*.json")):
        results = _read(path.stem)
        machine = results["machine"]
        where = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB"
        cells = [f"`{path.name}`", str(results["rounds"]), where, machine["python"], machine["date"]]
        # Cases of a benchmark may have been measured with different commits.
        of_cases = [case.get("code", {}) for case in results.get("cases", {}).values()]
        commits = map(_commit, of_cases or [results.get("code", {})])
        rows.append([*cells, "; ".join(dict.fromkeys(commits))])
    return _format(["results", "rounds", "machine", "Python", "date", "commit"], rows)


def _commit(code: Row) -> str:
    commit = str(code.get("commit", "unknown"))[:10]
    return f"{commit}, changed" if code.get("is_changed") else commit


TABLES: dict[str, Callable[[], str]] = {
    "peers": lambda: _contest("imagenet_like_8000", without=_CODEC),
    "real_photos": lambda: _contest("imagenet_8000"),
    "large_photos": lambda: _contest("4000x3000x400"),
    "overhead": lambda: _overhead("codec_8000", "codec_40000"),
    "against": _against,
    "near_duplicates": _near_duplicates,
    "reuse": _reuse,
    "small_samples": _small_samples,
    "readers": _readers,
    "growth": _growth,
    "measured": _measured,
}


def main() -> None:
    """Fills the tables of the page."""
    text = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_TABLE.sub(lambda found: found[1] + TABLES[found[2]](), text), encoding="utf-8")


if __name__ == "__main__":
    main()
