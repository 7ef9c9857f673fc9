import importlib
import types
from pathlib import Path

import pytest
from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib.memory import Memory

from penstock.errors import MissingToolError
from tests.hw.formal import sby
from tests.hw.formal.inside import Inside
from tests.hw.formal.proof import Mutation, mutant
from tests.hw.formal.properties import AnySeq, Assert
from tests.hw.formal.registry import PROOFS, document

REASON = sby.missing_tool()
needs_tools = pytest.mark.skipif(REASON is not None, reason=REASON or "all tools are there")

CASES = [
    pytest.param(proof, id=proof.name, marks=[pytest.mark.slow] * proof.slow) for proof in PROOFS
]
MUTANTS = [
    pytest.param(
        proof,
        claim.mutation,
        id=f"{proof.name}-{number}",
        # In the short run the first claim of each proof.
        marks=[pytest.mark.slow] * (proof.slow or number > 0),
    )
    for proof in PROOFS
    for number, claim in enumerate(proof.claims)
]


class Counter(Elaboratable):
    """Counts to nine, or to ten."""

    def __init__(self, most):
        self.most = most

    def elaborate(self, platform):
        m = Module()
        count, more = Signal(4), Signal()
        m.d.comb += [more.eq(AnySeq(1)), Assert(count <= 9)]
        with m.If(more & (count < self.most)):
            m.d.sync += count.eq(count + 1)
        return m


class Payload(Elaboratable):
    """A register that is written now and then; its proof relies on a zero before."""

    def __init__(self, *, reset_less):
        self.reset_less = reset_less

    def elaborate(self, platform):
        m = Module()
        payload, valid, written = Signal(4, reset_less=self.reset_less), Signal(), Signal()
        m.d.comb += [written.eq(AnySeq(1)), Assert(valid | (payload == 0))]
        with m.If(written):
            m.d.sync += [payload.eq(AnySeq(4)), valid.eq(1)]
        return m


class Stored(Elaboratable):
    """Reads a memory that nobody wrote."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=4, depth=4, init=[])
        port = memory.read_port(domain="comb")
        m.d.comb += [port.addr.eq(AnySeq(2)), Assert(port.data == 0)]
        return m


@needs_tools
def test_registers_without_reset_and_memories_begin_with_anything():
    assert sby.prove(Payload(reset_less=False), depth=3, inductive=True).holds
    assert sby.prove(Payload(reset_less=True), depth=3, inductive=True).refuted
    assert sby.prove(Stored(), depth=3, inductive=True).refuted


@needs_tools
def test_verdicts():
    assert sby.prove(Counter(9), depth=3, inductive=True).holds
    verdict = sby.prove(Counter(10), depth=12, inductive=True)
    assert verdict.refuted
    assert not verdict.holds
    unknown = sby.prove(Counter(10), depth=3, inductive=True)
    assert not unknown.holds
    assert not unknown.refuted


def test_missing_tool(monkeypatch):
    monkeypatch.setattr(sby.shutil, "which", lambda name, path: None)
    monkeypatch.setattr(sby.importlib.util, "find_spec", lambda name: object())
    with pytest.raises(MissingToolError, match=r"z3 is not installed; run `pip install penstock"):
        sby.prove(object(), depth=1, inductive=False)


def test_a_mutation_must_fit_one_place():
    with pytest.raises(ValueError, match=r"must fit one place of types, not 0: 'no such text'"):
        mutant(types, Mutation("no such text", ""))


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_all_mutations_fit(proof):
    """Also those of slow proofs: a change of the hardware must not leave them behind."""
    for claim in proof.claims:
        mutant(importlib.import_module(proof.module), claim.mutation)


def test_the_document_lists_the_proofs():
    path = Path(__file__).parents[3] / "docs" / "hardware" / "proofs.md"
    assert path.read_text() == document(), (
        "run `python -m tests.hw.formal > docs/hardware/proofs.md`"
    )


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_a_bounded_proof_says_why(proof):
    assert proof.inductive != bool(proof.bounded_because)


def test_names_inside_a_block():
    inside = Inside.of(Counter(9))
    assert inside["more"].name == "more"
    with pytest.raises(KeyError, match="drives 0 signals named level, not one"):
        inside["level"]


@needs_tools
@pytest.mark.parametrize("proof", CASES)
def test_claims_hold(proof):
    verdict = proof.run()
    assert verdict.holds, verdict.report


@needs_tools
@pytest.mark.parametrize(("proof", "mutation"), MUTANTS)
def test_mutants_are_caught(proof, mutation):
    assert proof.run(mutation).refuted
