"""Braces and lists in the names of inputs, compared with what a shell makes of them."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_tfrecords.transforms.sources.braces import expand_braces, has_braces, split_list
from tests.each import each
from tests.refusals import refuses

WORDS = st.sampled_from(["a", "b.tar", "é", "-", "/", "x y", ""])
NUMBERS = st.from_regex(r"0{0,2}[0-9]{1,2}", fullmatch=True)
BRACES = st.one_of(
    st.lists(WORDS, min_size=2, max_size=3).map(lambda words: "{" + ",".join(words) + "}"),
    st.tuples(NUMBERS, NUMBERS).map(lambda ends: f"{{{ends[0]}..{ends[1]}}}"),
)


def by_shell(path: str) -> list[str]:
    quoted = path.replace(" ", "\\ ")
    ran = subprocess.run(["bash", "-c", f"printf '%s\\0' .{quoted}"], capture_output=True, text=True, check=True)
    return [name[1:] for name in ran.stdout.split("\0")[:-1]]


@each(
    "path",
    ["s/{000..011}.tar", "{8..12}", "{08..12}", "{3..1}", "{a,b}/{1..2}.tar", "{a,}.tar", "{1..1}", "a{b}c", "{}", "x"],
)
def test_braces_stand_for_what_they_do_in_a_shell(path):
    assert expand_braces(path) == by_shell(path)
    assert has_braces(path) is (path not in ("a{b}c", "{}", "x"))


@settings(max_examples=50)  # Each starts a shell.
@given(st.lists(st.one_of(WORDS, BRACES), max_size=3).map("".join))
def test_any_braces_stand_for_what_they_do_in_a_shell(path):
    assert expand_braces(path) == by_shell(path)


def test_braces_that_stand_for_too_many_names_are_refused():
    for path in ("{0..99999999999}", "{000..999}" * 4):
        with refuses("too_many_names", "input", says=["10,000,000"]):
            expand_braces(path)


@pytest.mark.parametrize(
    ("word", "parts"),
    [("a.tar,b.tar", ["a.tar", "b.tar"]), ("{a,b}.tar,c{1..2}", ["{a,b}.tar", "c{1..2}"]), ("a{,b", ["a{", "b"])],
)
def test_a_list_is_cut_at_commas_that_are_not_in_braces(word, parts):
    assert split_list(word) == parts
