"""The template of the report, and how values become text on it."""

from __future__ import annotations

import functools
from typing import Any

import jinja2
from markupsafe import Markup

from beam_tfrecords.escaping import escape

_MOST_TEXT = 300


# Compiling it takes a third of the time of a small build.
@functools.cache
def report_template() -> jinja2.Template:
    """Returns the template. Every string that it shows is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("beam_tfrecords.beam_pipelines.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Characters that are unsafe for a terminal can also reorder text on a page.
        finalize=lambda value: escape(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.filters |= {"short": _shorten, "number": _as_number, "listed": _as_list}
    return environment.get_template("report.html.jinja")


def _shorten(text: str, most: int = _MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _as_list(value: Any) -> str:
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


def _as_number(value: int) -> str:
    return f"{value:,}"
