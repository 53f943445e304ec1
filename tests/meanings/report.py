"""Groups wrong outcomes by their kind, and shows the smallest input of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tests.meanings.meaning import Meaning
from tests.meanings.oracle import Outcome

_MOST_LINES, _MOST_WORDS = 12, 1500


@dataclasses.dataclass(frozen=True)
class Found:
    """An outcome of a case, with the words that draw the case again."""

    name: str
    case: Meaning
    outcome: Outcome
    folder: str

    @property
    def kind(self) -> str:
        """The kind of the problem, and for labels what the labels are."""
        head = self.outcome.problems[0].partition(": ")[0] if self.outcome.problems else self.outcome.kind
        if head.endswith(("labels", "values")) and "refused" not in head:
            labels = [kind for kind in self.case.kinds if kind.startswith("label:")]
            return f"{head} ({'given class_names' if 'names:stated' in self.case.kinds else ' '.join(labels)})"
        return head

    @property
    def size(self) -> int:
        """How much there is to read."""
        return sum(map(len, self._texts().values()))

    def _texts(self) -> dict[str, bytes]:
        ends = (".png", ".jpg", ".jpeg")
        return {name: data for name, data in self.case.files.items() if not name.lower().endswith(ends)}

    def show(self) -> str:
        """Returns files, settings and words, as Markdown."""
        lines = [f"`{self.name}` {self.case.form}: {' '.join(self.case.kinds)}", ""]
        lines += [f"- {problem[:500]}" for problem in self.outcome.problems[:3]]
        lines += [f"- request: `{str(self.case.settings)[:_MOST_WORDS]}`"]
        lines += [f"- judged settings: `{str(dict(self.outcome.settings))[:_MOST_WORDS]}`"]
        pictures = sorted(self.case.files.keys() - self._texts().keys())
        lines += [f"- {len(pictures)} images: {', '.join(pictures[:3])} …"]
        columns = {name: [str(cell)[:40] for cell in cells[:4]] for name, cells in self.case.columns.items()}
        lines += [f"- columns: `{columns}`", ""]
        for name, data in self._texts().items():
            text = data.decode(errors="replace").splitlines()
            if b"\0" in data[:1000] or data[:4] == b"PAR1":
                text = [f"{len(data)} bytes"]
            more = [f"… {len(text) - _MOST_LINES} more lines"] if len(text) > _MOST_LINES else []
            lines += [f"```\n# {name}", *(line[:300] for line in text[:_MOST_LINES]), *more, "```"]
        words = f"```\n{self.outcome.words[:_MOST_WORDS]}\n```\n"
        return "\n".join([*lines, words]).replace(self.folder, "")


def group(found: Sequence[Found]) -> Mapping[str, list[Found]]:
    """Returns kind -> its outcomes, the smallest first."""
    kinds: dict[str, list[Found]] = {}
    for one in sorted(found, key=lambda one: one.size):
        kinds.setdefault(one.kind, []).append(one)
    return dict(sorted(kinds.items(), key=lambda pair: -len(pair[1])))
