"""The tables of benchmarks are made from results, and no other figure stands beside them."""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import re
import sys

import numpy as np
import pytest
from PIL import Image

from tests.docs.pages import PROJECT, prose_of
from tests.each import each

FOLDER = PROJECT / "benchmarks"
# A number with what it measures.
FIGURE = re.compile(r"\d[\d,.]* ?(?:MB|GB|GiB|s|ms|hours?|minutes?|images/s|x|times|%)(?![\w-])")


# Measured before results said of which code they are. What is measured again leaves this list, and nothing enters it.
OF_UNKNOWN_CODE = {"growth"}
CODE = {"version", "commit", "is_changed", "digest"}


def load(name):
    sys.path.append(str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


TABLES, FIGURES, RUN, MAKE_PHOTOS = map(load, ("tables", "figures", "run", "make_photos"))
RESULTS = sorted(TABLES.RESULTS.glob("*.json"))


def releases():
    """The minor versions in CHANGELOG.md, the newest first."""
    found = re.findall(r"^## (\d+\.\d+)\.", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)
    return list(dict.fromkeys(found))


def is_out_of_date(version, *, releases):
    """Whether a result of a version is of more than a release ago: of an earlier minor version than the last one."""
    return version.rpartition(".")[0] not in releases[:2]


@pytest.mark.parametrize("page", TABLES.PAGES, ids=lambda page: page.name)
def test_the_tables_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert text == TABLES.fill_page(text), "say: python benchmarks/tables.py"


def test_a_changed_figure_is_found():
    page = FOLDER.parent / "docs" / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("| **beam-tfrecords** |"))
    assert TABLES.fill_page(text.replace(line, line.replace("1", "2"))) == text


def test_the_chart_is_that_of_the_results():
    results = TABLES.RESULTS / "imagenet_like_8000.json"
    with Image.open(PROJECT / "docs" / "benchmarks.png") as chart:
        digest = chart.info["Results"]
    assert digest == hashlib.sha256(results.read_bytes()).hexdigest(), (
        f"say: python benchmarks/chart.py {results.relative_to(PROJECT)} docs/benchmarks.png, in .venvs/chart"
    )


def test_every_table_stands_on_a_page():
    pages = "".join(page.read_text(encoding="utf-8") for page in TABLES.PAGES)
    assert set(re.findall(r"<!-- benchmarks/tables\.py: (\w+) -->", pages)) == set(TABLES.TABLES)


def test_every_file_of_results_is_in_a_table(monkeypatch):
    read = set()
    original = TABLES._read
    monkeypatch.setattr(TABLES, "_read", lambda name: read.add(name) or original(name))
    for name in TABLES.TABLES:
        if name != "measured":
            TABLES._make(name)
    assert read >= {path.stem for path in TABLES.RESULTS.glob("*.json")}


@each("path", RESULTS, ids=lambda path: path.stem)
def test_results_say_of_which_code_they_are_and_are_not_out_of_date(path):
    codes = TABLES.codes_of(json.loads(path.read_text()))
    if path.stem in OF_UNKNOWN_CODE and not all(codes):
        return
    assert path.stem not in OF_UNKNOWN_CODE, f"it was measured again: take {path.stem} out of OF_UNKNOWN_CODE"
    for code in codes:
        assert code.keys() == CODE
        assert re.fullmatch(r"[0-9a-f]{40}", code["commit"]), "measure in a clone, with git"
        assert not is_out_of_date(code["version"], releases=releases()), "measure it again: make bench"


def test_results_of_unknown_code_are_there():
    assert {path.stem for path in RESULTS} >= OF_UNKNOWN_CODE


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.1.0", True), ("1.0.0", False), ("1.0.7", False), ("0.2.3", False), ("0.1.0", True)],
)
def test_a_result_of_more_than_a_minor_version_ago_is_out_of_date(version, expected):
    assert is_out_of_date(version, releases=["1.0", "0.2", "0.1"]) is expected


def test_the_changelog_begins_with_the_version_of_the_results():
    assert FIGURES.project_version().startswith(f"{releases()[0]}.")


def test_a_range_of_rounds_is_the_median_with_the_lowest_and_the_highest():
    assert TABLES._range([3, 1, 2], ".1f") == "2.0 (1.0 to 3.0)"
    assert TABLES._range([0.5], ".2f") == "0.50 (0.50 to 0.50)"


def test_the_page_says_of_which_code_a_result_is(monkeypatch):
    old = json.loads((TABLES.RESULTS / "quality.json").read_text())
    code = {"version": "0.2.0", "commit": "1234567890abcdef", "is_changed": True, "digest": "fedcba0987654321"}
    measured = {**{name: old[name] for name in ("rounds", "machine")}, "code": code}
    monkeypatch.setattr(TABLES, "_read", lambda name: measured)
    assert "| 1234567890, changed | fedcba098765 |" in TABLES.TABLES["measured"]()
    cases = {"one": {"code": code}, "other": {"code": {**code, "commit": "f" * 40, "is_changed": False}}, "old": {}}
    monkeypatch.setattr(TABLES, "_read", lambda name: {**measured, "cases": cases})
    assert "| 1234567890, changed; ffffffffff; unknown | fedcba098765; unknown |" in TABLES.TABLES["measured"]()


def test_figures_are_written_with_the_commit_and_a_hash_of_the_files_that_decide_them(tmp_path):
    FIGURES.describe_code.cache_clear()
    FIGURES.write_figures(tmp_path / "x.json", script=str(FOLDER / "quality.py"), rounds=2, versions={}, found=[1.5])
    results = json.loads((tmp_path / "x.json").read_text())
    assert results["found"] == [1.5]
    assert results["code"].keys() == CODE
    assert results["code"]["digest"] == FIGURES.digest_of(FIGURES.deciding_files(FOLDER / "quality.py"))


def test_the_files_that_decide_are_the_package_and_what_the_script_uses():
    def names(script):
        return {path.relative_to(PROJECT).as_posix() for path in FIGURES.deciding_files(FOLDER / script)}

    own, contest = names("quality.py"), names("run.py")
    package = {
        "beam_tfrecords/reading/dataset.py",
        "beam_tfrecords/transforms/images/encode.py",
        "beam_tfrecords/beam_pipelines/report/report.html.jinja",
    }
    assert package <= own & contest
    assert "benchmarks/quality.py" in own - contest
    assert {"benchmarks/run.py", "benchmarks/peak_memory.py", "benchmarks/peers/bare_pillow.py"} <= contest - own
    assert "tests/integration/servers/proxy.py" in names("latency.py")
    assert not any("figures.py" in name for name in own)


def test_a_changed_file_changes_the_hash(tmp_path, monkeypatch):
    monkeypatch.setattr(FIGURES, "_PROJECT", tmp_path)
    path = tmp_path / "a.py"
    path.write_text("1")
    before = FIGURES.digest_of([path])
    path.write_text("2")
    assert FIGURES.digest_of([path]) != before


def test_every_script_that_make_bench_runs_writes_figures():
    makefile = (PROJECT / "Makefile").read_text()
    recipe = makefile[makefile.index("\nbench:") : makefile.index("\nbench-cold:")]
    scripts = set(re.findall(r"benchmarks/(\w+)\.py", recipe)) - {"tables"}
    assert {name for name in scripts if "write_figures(" not in (FOLDER / f"{name}.py").read_text()} == set()


def test_the_prose_of_the_page_has_no_measured_figure():
    (page,) = (page for page in TABLES.PAGES if page.name == "benchmarks.md")
    prose = "\n".join(line for line in prose_of(page).splitlines() if not line.startswith("|"))
    changes = "1% are added, 0.5% changed, 0.5% removed and 0.5% moved"  # what is done, not what was measured
    assert FIGURE.findall(prose.replace(changes, "")) == []


def test_make_bench_runs_every_benchmark():
    makefile = (PROJECT / "Makefile").read_text()
    recipes = makefile[makefile.index("\nbench:") : makefile.index("# The files of deploy/")]
    # Called by the others, for a single file, or to compare two commits or a library.
    helpers = {
        *("batches", "chart", "compare_photos", "contestants", "cut_sample_photos"),
        *("figures", "growth_inputs", "icc_profiles", "make_photos", "map_steps", "peak_memory"),
        *("scale_cluster", "scale_tables", "obstore_gets"),
    }
    scripts = {path.stem for path in FOLDER.glob("*.py")} - helpers
    assert set(re.findall(r"benchmarks/(\w+)\.py", recipes)) == scripts


@pytest.mark.parametrize(("files", "count"), [(3, 20), (12, 5), (7, 7)])
def test_a_folder_of_photos_is_linked_as_often_as_asked(tmp_path, files, count):
    paths = [tmp_path / "in" / str(number) / ("photo.JPEG", "photo.jpg")[number % 2] for number in range(files)]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes([number]))
    (tmp_path / "in" / "README.md").write_text("no photo")
    listed = RUN.list_photos(tmp_path / "in")
    assert sorted(listed) == sorted(paths)
    RUN.link_photos(listed, tmp_path / "out", count=count)
    made = [path.read_bytes()[0] for path in tmp_path.glob("out/class_*/*.jpg")]
    uses = [made.count(number) for number in range(files)]
    assert len(made) == count
    assert max(uses) - min(uses) <= 1
    assert [path.read_bytes()[0] for path in paths] == list(range(files))


def test_a_folder_without_photos_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no JPEG file"):
        RUN.link_photos([], tmp_path, count=1)


@pytest.mark.parametrize(
    ("flags", "title"),
    [
        ([], "mixed sizes"),
        (["--size=640x480"], "640x480"),
        (["--photos={}/holiday"], "holiday (2 files)"),
        (["--photos={}/holiday/../holiday/"], "holiday (2 files)"),
    ],
)
def test_results_say_which_photos_they_are_of(tmp_path, flags, title):
    (tmp_path / "holiday").mkdir()
    for name in ("a.jpg", "b.JPEG", "c.txt"):
        (tmp_path / "holiday" / name).write_bytes(b"")
    arguments = RUN.photo_options("").parse_args([flag.format(tmp_path) for flag in flags])
    assert RUN.photos_title(arguments) == title


def test_made_photos_have_the_forms_and_depend_on_their_number_alone():
    assert sum(MAKE_PHOTOS.FORMS.values()) == pytest.approx(1)
    sizes = {size for size, _, _ in MAKE_PHOTOS.FORMS}
    for index in range(5):
        photo = MAKE_PHOTOS.make_photo(index, sizes=(), seed=3)
        assert photo == MAKE_PHOTOS.make_photo(index, sizes=(), seed=3)
        with Image.open(io.BytesIO(photo)) as image:
            assert {image.size, image.size[::-1]} & sizes
    photo = MAKE_PHOTOS.make_photo(0, sizes=((64, 64),), seed=3)
    assert MAKE_PHOTOS.measure_photo(photo)["pixels"] == 64 * 64


@pytest.mark.parametrize("count", [1000, 2000])
@pytest.mark.parametrize("percent", [0, 0.1, 1, 10, 50])
def test_the_share_of_photos_that_the_table_names_is_at_least_as_near(count, percent):
    values = np.random.default_rng(count).permutation(count).astype(float)
    found = load("fast_codec").lowest_without(values, percent)
    assert np.sum(values >= found) == round(count * (1 - percent / 100))
