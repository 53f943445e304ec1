"""What stands beside the shards, read by its own readers: mlcroissant, Markdown."""

from __future__ import annotations

import json
import re

import mlcroissant
import pytest
import tensorflow_datasets as tfds

pytestmark = pytest.mark.nightly

CITATION = "@misc{photos,\n  title={Photos of everyday things},\n}"
MARKUP = "<img src=x onerror=alert(1)> & `code` *star*"


@pytest.fixture(scope="module")
def out(tmp_path_factory, photos, build):
    flags = ("--image_size=32", "--name=photos", "--num_shards=2", "--splits=train=0.8,test=0.2")
    said = (f"--description={MARKUP}", "--license=CC-BY-4.0", "--homepage=https://example.org/photos")
    said += (f"--citation={CITATION}",)
    return build(tmp_path_factory.mktemp("companions") / "out", f"--input={photos}", *flags, *said)


def test_croissant_is_valid(out):
    metadata = mlcroissant.Dataset(jsonld=str(out / "croissant.json")).metadata
    assert metadata.ctx.conforms_to.value == "http://mlcommons.org/croissant/1.1"
    assert metadata.ctx.issues.errors == set()
    # A build has no times.
    assert all("datePublished" in warning for warning in metadata.ctx.issues.warnings)
    assert (metadata.name, metadata.license, metadata.url) == ("photos", ["CC-BY-4.0"], "https://example.org/photos")
    assert metadata.cite_as == CITATION


def test_tfds_shows_what_was_said(out):
    info = tfds.builder_from_directory(str(out)).info
    assert (info.description, info.citation) == (MARKUP, CITATION)
    assert (info.redistribution_info.license, info.homepage) == ("CC-BY-4.0", "https://example.org/photos")


def test_croissant_of_a_table_without_images_is_valid(tmp_path, build):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"x": number}) + "\n" for number in range(5)))
    (tmp_path / "spec.yaml").write_text("layout: {x: {field: column.x, type: int64}}")
    out = build(tmp_path / "out", f"--input={tmp_path / 'rows.jsonl'}", f"--spec={tmp_path / 'spec.yaml'}")
    described = mlcroissant.Dataset(jsonld=str(out / "croissant.json"))
    assert len(list(described.records("records"))) == 5


def test_the_card_renders_without_markup_of_the_input(out):
    from markdown_it import MarkdownIt

    text = (out / "README.md").read_text()
    page = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    assert "<p>&lt;img src=x onerror=alert(1)&gt; &amp; `code` *star*</p>" in page
    assert set(re.findall(r"<(\w+)", page)) == {
        *("h1", "h2", "p", "a", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "pre", "code")
    }
    assert page.count('<code class="language-python">') == 4
