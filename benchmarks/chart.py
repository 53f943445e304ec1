"""Draws the chart of a benchmark: python chart.py RESULTS.json CHART.png (needs matplotlib).

The chart says of which file of results it is, by the file's SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_OWN_COLOUR = "#1f6fb2"
_OTHER_COLOUR = "#b8bfc6"


def draw_chart(results: dict[str, Any], target: pathlib.Path, *, digest: str) -> None:
    """Draws rates and memory side by side, one bar per contestant, the fastest on top.

    Args:
      results: what `run.py` writes as JSON.
      target: the PNG file.
      digest: of the file of results.
    """
    rows = results["summary"][::-1]
    titles = [row["title"] for row in rows]
    colours = [_OWN_COLOUR if row["contestant"].startswith("beam_tfrecords") else _OTHER_COLOUR for row in rows]
    figure, (speed, memory) = plt.subplots(1, 2, sharey=True, figsize=(10, 1.2 + 0.42 * len(rows)))

    rates = [row["rate"] for row in rows]
    spread = [
        [row["rate"] - row["slowest"] for row in rows],
        [row["fastest"] - row["rate"] for row in rows],
    ]
    bars = speed.barh(titles, rates, color=colours, xerr=spread, error_kw={"ecolor": "#444444", "lw": 1})
    labels = [f"{row['rate']:,.0f} ({row['slowest']:,.0f} to {row['fastest']:,.0f})" for row in rows]
    speed.bar_label(bars, labels, padding=8, fontsize=9)
    speed.set_title("images per second, start-up included", fontsize=10)

    megabytes = [(row["peak_bytes"] or 0) / 1e6 for row in rows]
    bars = memory.barh(titles, megabytes, color=colours)
    memory.bar_label(bars, [f"{size:,.0f}" for size in megabytes], padding=4, fontsize=9)
    memory.set_title("peak memory of all processes, MB", fontsize=10)

    for axes, margin in ((speed, 0.45), (memory, 0.18)):
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.set_xticks([])
        axes.margins(x=margin)
        axes.tick_params(left=False)
    machine = results["machine"]
    figure.supxlabel(
        f"{results['count']:,} photos of {results['size']}; median of "
        f"{results['rounds']} rounds (line: slowest to fastest)\n{machine['processor']}, "
        f"{machine['cores']} cores, Python {machine['python']}, {machine['date']}"
        + (f", commit {results['code']['commit'][:10]}" if "code" in results else ""),
        fontsize=8,
        color="#444444",
    )
    figure.tight_layout()
    figure.savefig(target, dpi=100, metadata={"Results": digest})


if __name__ == "__main__":
    data = pathlib.Path(sys.argv[1]).read_bytes()
    draw_chart(json.loads(data), pathlib.Path(sys.argv[2]), digest=hashlib.sha256(data).hexdigest())
