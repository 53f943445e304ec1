"""Groups wrong outcomes by their kind, and shows the smallest input of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tests.meanings.meaning import Case
from tests.meanings.oracle import Outcome

# Words in the kind of a problem that depends on what the labels are, or on what the images are.
_ABOUT_LABELS = ("labels", "values")
_MODES = ("label:later", "label:stated", "label:twin")
_PICTURES = (".png", ".jpg", ".jpeg")
_MOST_LINES, _MOST_WORDS = 12, 1500


@dataclasses.dataclass(frozen=True)
class Found:
    """An outcome of a case, with the words that draw the case again."""

    name: str
    case: Case
    outcome: Outcome
    folder: str

    @property
    def kind(self) -> str:
        """The kind of the problem, and for labels what the labels are."""
        head = self.outcome.problems[0].partition(": ")[0] if self.outcome.problems else self.outcome.kind
        if head.endswith(_ABOUT_LABELS) and "refused" not in head:
            is_stated = "names:stated" in self.case.kinds
            labels = [kind for kind in self.case.kinds if kind.startswith("label:") and kind not in _MODES]
            return f"{head} ({'given class_names' if is_stated else ' '.join(labels)})"
        return head

    @property
    def size(self) -> int:
        """How much there is to read."""
        return sum(len(data) for name, data in self.case.files.items() if not name.lower().endswith(_PICTURES))

    def show(self) -> str:
        """Returns files, settings and words, as Markdown."""

        def plain(text: object) -> str:
            return str(text).replace(self.folder, "")

        problems = "\n".join(f"- {plain(problem)[:500]}" for problem in self.outcome.problems[:3])
        lines = [f"`{self.name}` {self.case.form}: {' '.join(self.case.kinds)}", "", problems, ""]
        lines += [f"- request: `{str(self.case.settings)[:_MOST_WORDS]}`"]
        lines += [f"- judged settings: `{plain(dict(self.outcome.settings))[:_MOST_WORDS]}`"]
        pictures = [name for name in self.case.files if name.lower().endswith(_PICTURES)]
        lines += [f"- {len(pictures)} images: {', '.join(pictures[:3])} …", ""]
        for name, data in self.case.files.items():
            if name not in pictures:
                text = data.decode(errors="replace").splitlines() if is_text(data) else [f"{len(data)} bytes"]
                more = [f"… {len(text) - _MOST_LINES} more lines"] if len(text) > _MOST_LINES else []
                lines += [f"```\n# {name}", *(line[:300] for line in text[:_MOST_LINES]), *more, "```"]
                if not is_text(data):
                    cells = {column: list(map(short, values[:4])) for column, values in self.case.meaning.cells.items()}
                    lines += [f"columns: `{cells}`"]
        return "\n".join([*lines, f"```\n{plain(self.outcome.words)[:_MOST_WORDS]}\n```", ""])


def short(value: object) -> str:
    """Returns a cell in few words."""
    return str(value)[:40]


def is_text(data: bytes) -> bool:
    """Whether a file holds text."""
    return b"\0" not in data[:1000] and data[:4] != b"PAR1"


def group(found: Sequence[Found]) -> Mapping[str, list[Found]]:
    """Returns kind -> its outcomes, the smallest first."""
    kinds: dict[str, list[Found]] = {}
    for one in sorted(found, key=lambda one: one.size):
        kinds.setdefault(one.kind, []).append(one)
    return dict(sorted(kinds.items(), key=lambda pair: -len(pair[1])))
