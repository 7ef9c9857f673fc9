"""Mutants are noticed by their tests. All of them run in ``make mutants``, a few here."""

import importlib

import pytest

from tests.hw.formal.proof import Mutation, mutant
from tests.hw.mutants.listed import MUTANTS
from tests.hw.mutants.plugin import ROOT
from tests.hw.mutants.run import Verdict, run
from tests.kit.effort import effort

#: Some of the three that nothing noticed once.
FEW = effort(("causes ^ (toggle | event)", "(span < room)", "~some.any()"), ("(span < room)",))


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.breaks)
def test_the_mutation_fits(one):
    """A change of the hardware must not leave a mutant behind."""
    mutant(importlib.import_module(one.module), one.mutation)
    assert one.mutation.old != one.mutation.new
    assert (ROOT / one.test.partition("::")[0]).exists()


def test_each_is_there_once():
    assert len({(one.module, one.mutation) for one in MUTANTS}) == len(MUTANTS)
    assert len({one.breaks for one in MUTANTS}) == len(MUTANTS)


def test_a_text_that_does_not_fit():
    with pytest.raises(ValueError, match=r"must fit one place of penstock\.hw\.verilog, not 0"):
        mutant(importlib.import_module("penstock.hw.verilog"), Mutation("no such text", ""))


@pytest.fixture
def outcome(tmp_path):
    """Runs tests of a file of these lines on a mutant of the list."""

    def start(*lines, place=None):
        (tmp_path / "test_it.py").write_text("\n".join(lines))
        return run([str(tmp_path / "test_it.py")], place).verdict

    return start


USES = f"import {MUTANTS[0].module}"


def test_what_counts_as_noticed(outcome):
    """Only a test that says no; not one that could not run, and not a mutant that is not there."""
    assert outcome(USES, "def test_it(): pass", place=0) is Verdict.SURVIVED
    assert outcome("def test_it(): assert not 1", place=0) is Verdict.BROKEN
    assert outcome(USES, "def test_it(): raise TypeError", place=0) is Verdict.BROKEN


def test_a_few_are_noticed():
    places = [place for place, one in enumerate(MUTANTS) if one.mutation.new in FEW]
    assert len(places) == len(FEW)
    plain = run([MUTANTS[place].test for place in places])
    assert plain.verdict is Verdict.SURVIVED, plain.text
    for place in places:
        changed = run([MUTANTS[place].test], place)
        assert changed.verdict is Verdict.NOTICED, changed.text
