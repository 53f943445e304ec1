"""Writes the tables of docs/benchmarks.md and docs/scale.md from benchmarks/results; `make bench` ends with it.

    python benchmarks/tables.py

A table stands below a line `<!-- benchmarks/tables.py: NAME -->`. A test compares each with what is made here.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import scale_tables

_PROJECT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = _PROJECT / "benchmarks" / "results"
PAGES = (_PROJECT / "docs" / "benchmarks.md", _PROJECT / "docs" / "scale.md")
_TABLE = re.compile(r"^(<!-- benchmarks/tables\.py: (\w+) -->\n)(?:\|.*\n)*", re.MULTILINE)
_OURS, _CODEC = "beam_tfrecords", "own_codec"

Row = Mapping[str, Any]


def fill_page(text: str) -> str:
    """A page with its tables as the results have them; a table without results is left empty."""
    return _TABLE.sub(lambda found: found[1] + _make(found[2]), text)


def _make(name: str) -> str:
    try:
        return TABLES[name]()
    except FileNotFoundError:
        return ""


def _read(name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return results


def _format(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    first, *rest = (f"|{''.join(f' {cell} |' if cell else ' |' for cell in cells)}\n" for cells in (head, *rows))
    return f"{first}|{'---|' * (first.count('|') - 1)}\n{''.join(rest)}"


def _photos(results: Row) -> str:
    return f"{results['count']:,} photos of {results['size']}"


def _memory(peak_bytes: float | None) -> str:
    return f"{peak_bytes / 1e6:,.0f} MB" if peak_bytes else ""


def _title(row: Row) -> str:
    title = f"**{row['title']}**" if row["contestant"] == _OURS else row["title"]
    return title + (f" (lost up to {row['lost']:,} photos in a run)" if row["lost"] else "")


def _ratio(row: Row) -> str:
    return f"{row['ratio']:.2f}x" if row["contestant"] != _OURS else ""


_COLUMNS: dict[str, Callable[[Row], str]] = {
    "images/s": lambda row: f"{row['rate']:,.0f}",
    "slowest to fastest": lambda row: f"{row['slowest']:,.0f} to {row['fastest']:,.0f}",
    "beam-tfrecords against it": _ratio,
    "peak memory": lambda row: _memory(row["peak_bytes"]),
}


def _contest(name: str, columns: Collection[str], *, without: Collection[str] = ()) -> str:
    """A row per contestant; a column that nothing was measured for is left out."""
    results = _read(name)
    rows = [row for row in results["summary"] if row["contestant"] not in without]
    cells = {title: [_COLUMNS[title](row) for row in rows] for title in columns}
    shown = {title: column for title, column in cells.items() if any(column)}
    return _format([_photos(results), *shown], zip(map(_title, rows), *shown.values(), strict=True))


def _overhead(names: Collection[str]) -> str:
    """How much longer a build takes than its codec in a bare pool."""
    head, ours, codec, longer = [""], [], [], []
    for name in names:
        results = _read(name)
        seconds = {
            contestant: statistics.median(
                run["seconds"]
                for run in results["runs"]
                if run["contestant"] == contestant and run["peak_bytes"] is None
            )
            for contestant in (_OURS, _CODEC)
        }
        (ratio,) = (row["ratio"] for row in results["summary"] if row["contestant"] == _CODEC)
        head.append(f"{results['count']:,} photos")
        ours.append(f"{seconds[_OURS]:.1f} s")
        codec.append(f"{seconds[_CODEC]:.1f} s")
        longer.append(f"{1 / ratio - 1:.0%}")
    rows = (
        ["**beam-tfrecords**", *ours],
        ["its codec in a bare pool", *codec],
        ["longer, median of rounds", *longer],
    )
    return _format(head, rows)


def _reuse(name: str) -> str:
    """What a build after a change takes, as a share of the first build of its round."""
    results = _read(name)
    first = results["seconds"]["first"]
    shares = {
        title: statistics.median(seconds / of for seconds, of in zip(results["seconds"][key], first, strict=True))
        for title, key in (
            ("next version", "next"),
            ("the same from scratch", "from scratch"),
            ("again, with nothing changed", "unchanged"),
        )
    }
    rows = [(title, f"{share:.0%}") for title, share in shares.items()]
    return _format([_photos(results), "of the time of the first version"], rows)


def _sources(name: str) -> str:
    """How fast the same photos are read from each form, as a share of the folder's rate."""
    results = _read(name)
    folder = results["seconds"]["folder"]
    rows = []
    for title, times in results["seconds"].items():
        share = statistics.median(base / seconds for base, seconds in zip(folder, times, strict=True))
        rate = results["count"] / statistics.median(times)
        peak = _memory(results["peak_bytes"][title])
        rows.append([title, f"{rate:,.0f}", f"{share:.2f}" if title != "folder" else "", peak])
    return _format([_photos(results), "images/s", "of the folder's rate", "peak memory"], rows)


def _memory_growth() -> str:
    rows = []
    for name, what in (("keep_cold", "files kept"), ("keep", "files kept"), ("imagenet_like_8000", "photos resized")):
        results = _read(name)
        ours = next(row for row in results["summary"] if row["contestant"].startswith(_OURS))
        rows.append((f"{results['count']:,} {what}", _memory(ours["peak_bytes"])))
    return _format(["", "peak memory, all processes"], rows)


_STEPS = {"grouped": "listed, ordered and grouped", "published": "through {shards:,} shards to a published dataset"}


def _references() -> str:
    """What references cost, of each number that was measured."""
    rows = []
    for results in _all("references_*"):
        # The oldest results are of the first step alone.
        for step, measured in results.get("steps", {"grouped": results}).items():
            what = _STEPS[step].format(shards=results.get("shards", 0))
            spent = measured.get("processor_seconds")
            cells = [f"{results['count']:,} {what}", f"{measured['seconds']:,.0f} s"]
            rows.append([*cells, f"{spent:,.0f} s" if spent else "", _memory(measured["peak_bytes"])])
    return _format(["references", "time", "processor time", "peak memory, all processes"], rows)


def _all(pattern: str) -> list[dict[str, Any]]:
    """The results of a benchmark at all counts, the smallest first.

    Raises:
      FileNotFoundError: there are none.
    """
    found = [_read(path.stem) for path in RESULTS.glob(f"{pattern}.json")]
    if not found:
        raise FileNotFoundError(pattern)
    return sorted(found, key=lambda results: results["count"])


def _range(values: Iterable[float], form: str) -> str:
    """The median of values, and the lowest to the highest."""
    found = list(values)
    return f"{statistics.median(found):{form}} ({min(found):{form}} to {max(found):{form}})"


_PLACES = {"disk": "a disk", "gs": "a bucket, gs://", "s3": "a bucket, s3://"}


def _latency(name: str) -> str:
    """What is left of the rate of a disk where every request takes a while."""
    results = _read(name)
    disk = results["seconds"]["disk"]
    rows = []
    for place, seconds in results["seconds"].items():
        shares = [base / one for base, one in zip(disk, seconds, strict=True)]
        asked = results["requests"].get(place)
        rows.append(
            [
                f"{_PLACES[place]} to the same",
                _range((results["count"] / one for one in seconds), ",.0f"),
                _range(shares, ".2f") if place != "disk" else "",
                f"{asked / results['count']:.2f}" if asked else "",
            ]
        )
    cores = f"{results['cores']} core" + ("s" if results["cores"] > 1 else "")
    head = f"{_photos(results)}, {cores}, {1000 * results['latency']:.0f} ms a request"
    return _format([head, "images/s", "of the disk's rate", "requests an image"], rows)


_KINDS = {
    "png": "PNG files to PNG",
    "jpeg": "JPEG files to JPEG",
    "tar": "PNG files in a tar file",
    "keep": "PNG files kept",
    "parquet": "rows of a Parquet file",
    "csv": "rows of a CSV file",
}


def _small_samples(name: str) -> str:
    """Small images and rows against bare loops."""
    rows = []
    for kind, found in _read(name)["kinds"].items():
        bare, ours = found["bare loop"], found["beam-tfrecords"]
        ratios = [one / other for (one, _), (other, _) in zip(bare, ours, strict=True)]
        spent = [one / other for (_, one), (_, other) in zip(bare, ours, strict=True)]
        rows.append(
            [
                f"{found['samples']:,} {_KINDS[kind]}",
                _range((found["samples"] / one for one, _ in ours), ",.0f"),
                f"{statistics.median(found['samples'] / one for one, _ in bare):,.0f}",
                _range(ratios, ".2f"),
                f"{statistics.median(spent):.2f}",
            ]
        )
    return _format(["", "samples/s", "the bare loop", "of its rate", "of its rate by processor time"], rows)


def _start(name: str) -> str:
    """What small builds wait for."""
    results = _read(name)
    rows = []
    for kind, runs in results["builds"].items():
        of = {what: [one[what] for one in runs if what in one] for what in ("first block", "after the last", "all")}
        rows.append([kind, *(_range(seconds, ".2f") if seconds else "" for seconds in of.values())])
    head = (_photos(results), "s to the first block", "s after the last", "s in all")
    return _format(head, rows)


_MAPS = {
    "without": "without a function",
    "same": "with one that returns the sample",
    "crop": "with one that crops",
    "pool": "our codec in a bare pool",
    "pool, crop": "the same, cropping",
}


def _map(name: str) -> str:
    """What a function of the user costs."""
    results = _read(name)
    rows = ((_MAPS[kind], _range(found, ".2f")) for kind, found in results["msec"].items())
    return _format([_photos(results), "ms of a core for a photo"], rows)


def _annotations() -> str:
    """A dry run over annotations of the size of COCO's."""
    results = _read("annotations")
    rows = (
        (f"`--layout={layout}`", _range(seconds, ".1f"), _memory(results["peak_bytes"][layout]))
        for layout, seconds in results["seconds"].items()
    )
    head = f"{results['images']:,} images, {results['boxes']:,} boxes, {results['file_megabytes']:,} MB of JSON"
    return _format([head, "s of a dry run", "peak memory"], rows)


def _first_batch(name: str) -> str:
    """The first batch from a bucket."""
    results = _read(name)
    rows = [
        (f"{reader}, {store}://", _range(seconds, ".2f"))
        for store, readers in results["seconds"].items()
        for reader, seconds in readers.items()
    ]
    head = f"{_photos(results)}, {1000 * results['latency']:.0f} ms a request"
    return _format([head, "s to the first batch"], rows)


def _cache(name: str) -> str:
    """Epochs from a bucket with a cache."""
    results = _read(name)
    rows = []
    for reader, found in results["seconds"].items():
        shares = [local / cached for local, cached in zip(found["local"], found["cached"], strict=True)]
        title = "load" if reader == "load" else "records.read_batch"
        rows.append([title, *(_range(found[kind], ".2f") for kind in ("first", "four")), _range(shares, ".2f")])
    head = f"{_photos(results)}, {1000 * results['latency']:.0f} ms a request"
    columns = ("s of the first epoch", "s of the first of 4 processes", "later epochs, of a local disk's rate")
    return _format([head, *columns], rows)


def _readers() -> str:
    results = _read("readers_8000")
    rates = sorted(results["rates"].items(), key=lambda item: -statistics.median(item[1]))
    rows = [
        (title, f"{statistics.median(one):,.0f}", f"{min(one):,.0f} to {max(one):,.0f}", _held_against(results, title))
        for title, one in rates
    ]
    return _format([f"{results['count']:,} photos of {results['size']}", *_READING], rows)


def _quality() -> str:
    results = _read("quality")
    faults = ((title, f"{found:.0%} of them shown") for title, found in results["faults"].items())
    copies = (
        (f"copy, {title}", f"{found['recall']:.0%} of the pairs listed, and {found['wrong']} others")
        for title, found in results["copies"].items()
    )
    return _format((f"{results['count']} photos", "found"), [*faults, *copies])


def _fast_codec(name: str) -> str:
    """How near the fast codec is to the exact one."""
    results = _read(name)
    head = [_photos(results), *_NEARNESS.values()]
    rows = (
        [f"shorter side {side}", *(f"{found[share]:.1f} dB" for share in _NEARNESS)]
        for side, found in results["decibels"].items()
    )
    return _format(head, rows)


def _near_duplicates(name: str) -> str:
    """The processor time of builds by the distance at which near-duplicates are listed."""
    results = _read(name)
    times = {distance: statistics.median(seconds) for distance, seconds in results["processor_seconds"].items()}
    rows = ((f"`--near_duplicates={distance}`", f"{seconds:.1f} s") for distance, seconds in times.items())
    return _format([_photos(results), "processor time of a build"], rows)


def _held_against(results: Row, title: str) -> str:
    """What a reader is held against, and how many times as fast it is."""
    ratios = {name.partition(" against ")[::2]: values for name, values in results["against"].items()}
    found = {other: statistics.median(values) for (own, other), values in ratios.items() if own == title}
    return ", ".join(f"{ratio:.2f}x {other.partition(',')[0]}" for other, ratio in found.items())


def _growth() -> str:
    """What cases cost from their second size on; the first is start-up."""
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


# Tables of docs/scale.md with results of their own.
_OF_SCALE = {"scale_readers": "many_shards_300000", "scale_verify": "verify_2000"}


def _scale(name: str) -> str:
    """What builds of up to a billion images ask for."""
    results = _read(_OF_SCALE.get(name, "million_1000000" if name.startswith("million") else "scale_plan"))
    return _format(*scale_tables.TABLES[name](results))


def _measured() -> str:
    """Where, when and with which code each table's results were measured."""
    rows = []
    for path in sorted(RESULTS.glob("*.json")):
        results = _read(path.stem)
        machine = results["machine"]
        where = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB"
        cells = [f"`{path.name}`", str(results["rounds"]), where, machine["python"], machine["date"]]
        codes = codes_of(results)
        rows.append(
            [*cells, _names(map(_commit, codes)), _names(str(code.get("digest", "unknown"))[:12] for code in codes)]
        )
    return _format(["results", "rounds", "machine", "Python", "date", "commit", "hash"], rows)


def codes_of(results: Row) -> list[Row]:
    """The code that results are of; cases of a benchmark may be of different code. Empty if nothing says so."""
    of_cases = [case.get("code", {}) for case in results.get("cases", {}).values()]
    return of_cases or [results.get("code", {})]


def _commit(code: Row) -> str:
    commit = str(code.get("commit", "unknown"))[:10]
    return f"{commit}, changed" if code.get("is_changed") else commit


def _names(names: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(names))


_READING = ("images/s", "slowest to fastest", "against")
_NEARNESS = {"50": "half of the photos", "1": "99 of 100", "0.1": "999 of 1,000", "0": "all"}
_KEEP = ("images/s", "slowest to fastest", "peak memory")
TABLES: dict[str, Callable[[], str]] = {
    "peers": lambda: _contest("imagenet_like_8000", _COLUMNS, without=(_CODEC,)),
    "real_photos": lambda: _contest("imagenet_8000", _COLUMNS),
    "large_photos": lambda: _contest("4000x3000x400", _COLUMNS),
    "overhead": lambda: _overhead(("imagenet_like_8000", "imagenet_like_40000")),
    "keep": lambda: _contest("keep", _KEEP),
    "keep_cold": lambda: _contest("keep_cold", _KEEP),
    "quality": _quality,
    "fast_codec": lambda: _fast_codec("fast_codec"),
    "near_duplicates": lambda: _near_duplicates("near_duplicates_40000"),
    "sources": lambda: _sources("sources_8000"),
    "reuse": lambda: _reuse("reuse_8000"),
    "memory": _memory_growth,
    "references": _references,
    "latency": lambda: _latency("latency_2000"),
    "small_samples": lambda: _small_samples("small_samples_60000"),
    "start": lambda: _start("start_8000"),
    "map": lambda: _map("map_8000"),
    "annotations": _annotations,
    "readers": _readers,
    "first_batch": lambda: _first_batch("first_batch_8000"),
    "cache": lambda: _cache("cache_8000"),
    "growth": _growth,
    "measured": _measured,
    **{name: functools.partial(_scale, name) for name in scale_tables.TABLES},
}


def main() -> None:
    """Fills the tables of all pages."""
    for page in PAGES:
        page.write_text(fill_page(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
