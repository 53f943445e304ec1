"""The Python passages of the pages are clean for `mypy --strict`, with the types of the public API."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.docs.typed_passages import errors_in, write_passages

# Libraries without types, or with so many that reading them takes a minute, are untyped.
CONFIG = """
[mypy]
strict = true
python_version = 3.10
follow_imports = silent
ignore_missing_imports = true
disable_error_code = import-untyped
disallow_subclassing_any = false

[mypy-tensorflow.*,keras.*,apache_beam.*,torch.*,grain.*,pyarrow.*,pandas.*]
follow_imports = skip
"""


@pytest.mark.nightly
def test_the_passages_have_the_types_of_the_api(tmp_path):
    (tmp_path / "mypy.ini").write_text(CONFIG)
    words = ["-m", "mypy", f"--config-file={tmp_path / 'mypy.ini'}", f"--cache-dir={tmp_path / 'cache'}"]
    ran = subprocess.run([sys.executable, *words, *write_passages(tmp_path)], capture_output=True, text=True)
    errors, wrong = errors_in(ran.stdout)
    assert errors == []
    assert len(wrong) == 1, ran.stdout + ran.stderr
