"""Proofs: claims, the design that asserts them, and mutations with which they must fail."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType

from amaranth.hdl import Elaboratable

from tests.hw.formal.sby import Verdict, prove


@dataclass(frozen=True)
class Mutation:
    """A change of one place in a module's source.

    Parameters
    ----------
    old, new : str
        Text that occurs once, and its replacement.
    """

    old: str
    new: str


@dataclass(frozen=True)
class Claim:
    """A sentence about a block, and a mutation that breaks it.

    Parameters
    ----------
    sentence : str
        The contract.
    mutation : Mutation
        Makes the proof fail.
    """

    sentence: str
    mutation: Mutation


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Claims about one block that are checked in one run.

    Parameters
    ----------
    name : str
        Short name.
    module : str
        Module with the block's source.
    build : callable
        Takes the module, or a mutant of it, and gives the design with the assertions.
    size : str
        The block's parameters in the proof.
    depth : int
        Cycles that are searched, and cycles of the induction.
    inductive : bool
        Whether the claims are proved for runs of any length.
    claims : tuple of Claim
        What the assertions say.
    bounded_because : str
        What the proof lacks for an induction; empty if it is inductive.
    slow : bool
        Whether it takes longer than some seconds.
    constants : mapping
        Constants of the module with other values in the proof, to make words narrower.
    """

    name: str
    module: str
    build: Callable[[ModuleType], Elaboratable]
    size: str
    depth: int
    inductive: bool
    claims: tuple[Claim, ...]
    bounded_because: str = ""
    slow: bool = False
    constants: Mapping[str, object] = field(default_factory=dict)

    def run(self, mutation: Mutation | None = None) -> Verdict:
        """Check the claims, of the block itself or of a mutant."""
        module = importlib.import_module(self.module)
        if mutation is not None or self.constants:
            module = mutant(module, mutation)
            module.__dict__.update(self.constants)
        return prove(self.build(module), depth=self.depth, inductive=self.inductive)


def mutant(module: ModuleType, mutation: Mutation | None) -> ModuleType:
    """A copy of a module, with the mutation in its source if there is one.

    Raises
    ------
    ValueError
        The text to change does not occur exactly once.
    """
    source = inspect.getsource(module)
    if mutation is not None:
        if (count := source.count(mutation.old)) != 1:
            raise ValueError(
                f"a mutation must fit one place of {module.__name__}, not {count}: {mutation.old!r}"
            )
        source = source.replace(mutation.old, mutation.new)
    copy = ModuleType(module.__name__)
    copy.__package__ = module.__package__
    code = compile(source, module.__name__, "exec")
    exec(code, copy.__dict__)
    return copy
