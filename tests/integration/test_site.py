"""The site that `make docs` builds, in a real browser: links, search, copy buttons, versions, phone width, axe-core."""

from __future__ import annotations

import contextlib
import functools
import html.parser
import json
import os
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import beam_tfrecords

pytestmark = pytest.mark.nightly

PROJECT = Path(__file__).parents[2]
AXE = PROJECT / ".cache/axe-core/node_modules/axe-core/axe.min.js"
SOURCES = [*PROJECT.glob("docs/**/*.md"), *PROJECT.glob("docs/**/*.rst")]
PAGES = sorted(str(path.relative_to(PROJECT / "docs").with_suffix(".html")) for path in SOURCES)


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Prints nothing."""


@pytest.fixture(scope="module")
def sites(tmp_path_factory) -> Path:
    """The folder of all versions: that of the working tree, and an older one."""
    folder = tmp_path_factory.mktemp("sites")
    (folder / "0.1").mkdir()
    (folder / "0.1/settings.html").write_text('<link rel="icon" href="data:,"><title>Settings 0.1</title>')
    subprocess.run(["make", "--no-print-directory", "docs", f"DOCS_OUT={folder}"], cwd=PROJECT, check=True)
    return folder


@pytest.fixture(scope="module")
def site(sites) -> Path:
    return sites / json.loads((sites / "versions.json").read_text())[0]["version"]


@pytest.fixture
def open_page(site, browser) -> Iterator:
    """(name, width, color scheme) -> the page; errors and requests to other hosts fail the test."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site.parent)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/"
    wrong: list[str] = []

    def check(url: str) -> None:
        if not url.startswith((base, "data:", "blob:")):
            wrong.append(url)

    @contextlib.contextmanager
    def open_page(name: str, *, width: int = 1280, scheme: str = "light") -> Iterator[Page]:
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.on("request", lambda request: check(request.url))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"{base}{site.name}/{name}", wait_until="load")
        yield page
        context.close()

    yield open_page
    server.shutdown()
    server.server_close()
    assert wrong == []


class Links(html.parser.HTMLParser):
    """Collects the targets and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.targets.add(value)


def test_every_link_and_anchor_is_there(site):
    read = functools.cache(Links)
    broken = []
    for name in PAGES:
        for target in read(site / name).targets:
            url = urllib.parse.urlsplit(urllib.parse.unquote(target))
            if url.scheme in ("http", "https", "data"):
                continue
            file = Path(os.path.normpath((site / name).parent / url.path)) if url.path else site / name
            anchors = read(file).anchors if file.suffix == ".html" and file.is_file() else {""}
            if not file.is_file() or url.fragment not in anchors:
                broken.append((name, target))
    assert broken == []


def test_the_api_has_every_public_name(site):
    anchors = Links(site / "api.html").anchors
    # `convert` is another name of `build`.
    assert {f"beam_tfrecords.{name}" for name in beam_tfrecords.__all__} - anchors == {"beam_tfrecords.convert"}


# The other two pairs differ only in what all pages share.
VIEWS = [*((name, width, scheme) for name in PAGES for width, scheme in ((1280, "light"), (390, "dark")))]
VIEWS += [("sources/objects.html", 390, "light"), ("sources/objects.html", 1280, "dark")]


@pytest.mark.parametrize(("name", "width", "scheme"), VIEWS)
def test_a_page_fits_the_screen_and_axe_finds_no_fault(open_page, name, width, scheme):
    if not AXE.exists():
        pytest.skip("needs axe-core: tests/integration/install.sh")
    with open_page(name, width=width, scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        # Pictures below the screen are loaded too.
        page.evaluate("Promise.all([...document.images].map(image => image.decode()))")
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run()")
        assert len(found["passes"]) > 20
        assert [f"{one['id']}: {one['nodes'][0]['failureSummary']}" for one in found["violations"]] == []


def test_copy_buttons_copy_the_code(open_page):
    with open_page("start.html") as page:
        blocks = page.locator("div.highlight pre")
        assert page.locator("button.copybtn").count() == blocks.count() > 2
        for number in range(blocks.count()):
            blocks.nth(number).hover()
            page.locator("button.copybtn").nth(number).click()
            page.wait_for_function("navigator.clipboard.readText().then(text => text.length > 0)")
            assert page.evaluate("navigator.clipboard.readText()").strip() == blocks.nth(number).inner_text().strip()


def test_prompts_and_results_of_examples_are_not_copied(open_page):
    with open_page("api.html") as page:
        page.locator("div.highlight pre", has_text=">>> dataset = build(").hover()
        page.locator("div.highlight", has_text=">>> dataset = build(").locator("button.copybtn").first.click()
        page.wait_for_function("navigator.clipboard.readText().then(text => text.length > 0)")
        lines = page.evaluate("navigator.clipboard.readText()").splitlines()
        assert lines == ['dataset = build("photos/", "built/", image_size=16, quiet=True)', "dataset.num_records"]


@pytest.mark.parametrize("name", PAGES)
def test_no_command_is_cut(open_page, name):
    with open_page(name) as page:
        cut = "blocks => blocks.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"
        assert page.locator("div.highlight-bash pre").evaluate_all(cut) == []


def test_the_start_page_leads_to_the_source(open_page):
    with open_page("index.html") as page:
        page.locator("a.source-link:visible").first.click()
        page.locator("main a[href*='build/build']").click()
        assert "def build(" in page.locator("main").inner_text()


WORDS = [("stratify", "sources/splits.html"), ("keras", "tutorial.html"), ("augmentation", "recipes.html")]


@pytest.mark.parametrize(("words", "found"), WORDS)
def test_the_first_page_that_the_search_finds_answers_the_question(open_page, words, found):
    with open_page(f"search.html?q={words}") as page:
        assert found in (page.locator("#search-results li a").first.get_attribute("href") or "")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(("words", "found"), [("near duplicates", "failures.html"), ("WriteDataset", "api.html")])
def test_the_search_finds_pages(open_page, width, words, found):
    with open_page("index.html", width=width) as page:
        page.locator("button.search-button-field:visible, button.search-button:visible").first.click()
        page.keyboard.type(words)
        page.keyboard.press("Enter")
        page.locator(f"#search-results a[href*='{found}']").first.wait_for()


def test_versions_lead_to_the_same_page(open_page, site):
    with open_page("settings.html") as page:
        button = page.locator("button.version-switcher__button:visible")
        # A script writes the version there, once it has read versions.json.
        expect(button).to_have_text(site.name)
        button.click()
        page.locator(".version-switcher__menu a:visible", has_text="0.1").click()
        page.wait_for_url("**/0.1/settings.html")
        assert page.title() == "Settings 0.1"


def test_a_reader_chooses_light_or_dark(open_page):
    with open_page("index.html", scheme="light") as page:
        page.locator("button.pst-navbar-icon:visible, .theme-switch-button:visible").last.click()
        page.locator("[data-mode=dark]:visible, .theme-switch-container a:visible", has_text="Dark").first.click()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
