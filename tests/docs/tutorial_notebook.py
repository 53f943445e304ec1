"""Writes docs/tutorial.ipynb from docs/tutorial.md: `python -m tests.docs.tutorial_notebook`."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.docs.pages import PROJECT, Passage, passages_of, split_page

PAGE = PROJECT / "docs" / "tutorial.md"
NOTEBOOK = PROJECT / "docs" / "tutorial.ipynb"


def notebook_text() -> str:
    """Returns the page as a notebook: its passages are cells, and what they print is the output of these cells."""
    cells: list[dict[str, Any]] = []
    for prose, passage in split_page(PAGE):
        _add_markdown(cells, prose)
        if passage is None:
            continue
        if passage.prints:
            code = next(cell for cell in reversed(cells) if cell["cell_type"] == "code")
            code["outputs"] = [{"name": "stdout", "output_type": "stream", "text": _lines(passage.text)}]
        elif code_text := _as_code(passage):
            source = _lines(code_text)
            cells.append(
                {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
            )
        else:
            _add_markdown(cells, f"```{passage.language}\n{passage.text}```")
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _as_code(passage: Passage) -> str | None:
    """Returns the code of a passage in a notebook, or None if the reader only reads the passage there."""
    text = passage.text.strip()
    if passage.reason is not None or passage.language == "text":
        return None
    if passage.language == "bash":
        # A line that begins with spaces continues a command.
        return re.sub(r"^(?! )", "!", text, flags=re.MULTILINE)
    if passage.language == "yaml":
        header, _, rest = text.partition("\n")
        return f"%%writefile {header.removeprefix('# ')}\n{rest}"
    return text


def _add_markdown(cells: list[dict[str, Any]], text: str) -> None:
    if not (text := text.strip()):
        return
    if cells and cells[-1]["cell_type"] == "markdown":
        cells[-1]["source"] = _lines("".join([*cells[-1]["source"], "\n\n", text]))
    else:
        cells.append({"cell_type": "markdown", "metadata": {}, "source": _lines(text)})


def _lines(text: str) -> list[str]:
    return text.strip().splitlines(keepends=True)


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook_text(), encoding="utf-8")
    print(f"{NOTEBOOK.relative_to(PROJECT)}: {len(passages_of(PAGE))} passages")
