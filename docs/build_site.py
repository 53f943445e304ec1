"""Builds the site of these pages below a folder that may hold the sites of other versions: `make docs`."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import main as sphinx_build

DOCS = Path(__file__).parent


def build_site(folder: Path, url: str) -> int:
    """Builds the site of this version in `folder/1.0/`, and lists all versions in the folder.

    Args:
      folder: has a subfolder for each version.
      url: path of the folder on the web server, such as "/beam-tfrecords"; "" for the root.

    Returns:
      Exit code: 0 if there was no warning.
    """
    version = ".".join(importlib.metadata.version("beam-tfrecords").split(".")[:2])
    with tempfile.TemporaryDirectory() as doctrees:
        words = ["--quiet", "--fail-on-warning", "--keep-going", "-d", doctrees]
        code = sphinx_build([*words, str(DOCS), str(folder / version)])
    versions = [path.name for path in folder.iterdir() if re.fullmatch(r"\d+\.\d+", path.name)]
    versions.sort(key=lambda name: [int(number) for number in name.split(".")], reverse=True)
    listed = [{"version": name, "url": f"{url}/{name}/", "preferred": name == versions[0]} for name in versions]
    (folder / "versions.json").write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    newest = f'<!doctype html>\n<meta http-equiv="refresh" content="0; url={versions[0]}/index.html">\n'
    (folder / "index.html").write_text(newest, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(build_site(Path(sys.argv[1]), sys.argv[2].rstrip("/")))
